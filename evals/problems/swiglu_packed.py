"""SwiGLU on a packed gate-and-up projection, bfloat16: both halves are strided views of one tensor."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"tokens": (1, 65536)}
workloads = {"odd": {"tokens": 2053}}
checks = {"small": {"tokens": 3}}


class Model(nn.Module):
    """silu(gate) * up, x of shape (tokens, 2 * hidden)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up


def get_inputs(tokens: int = 16384) -> list[torch.Tensor]:
    return [torch.randn(tokens, 2 * 5504, dtype=torch.bfloat16)]


def get_init_inputs() -> list[int]:
    return []
