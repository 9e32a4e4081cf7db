"""First half of a gated feed-forward block, bfloat16: two projections of one input, one gating the other."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"tokens": (1, 65536), "inputs": (16, 8192), "hidden": (16, 16384)}
workloads = {"odd": {"tokens": 1021, "inputs": 776, "hidden": 1283}}
checks = {"small": {"tokens": 16, "inputs": 160, "hidden": 128}}


class Model(nn.Module):
    """silu(x G^T) * (x U^T); x (tokens, inputs), G and U (hidden, inputs)."""

    def forward(self, x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.silu(F.linear(x, gate)) * F.linear(x, up)


def get_inputs(tokens: int = 8192, inputs: int = 2048, hidden: int = 5504) -> list[torch.Tensor]:
    return [
        torch.randn(tokens, inputs, dtype=torch.bfloat16),
        torch.randn(hidden, inputs, dtype=torch.bfloat16) / inputs**0.5,
        torch.randn(hidden, inputs, dtype=torch.bfloat16) / inputs**0.5,
    ]


def get_init_inputs() -> list[int]:
    return []
