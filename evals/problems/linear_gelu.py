"""Up-projection of a feed-forward block with bias and exact GELU, bfloat16."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"tokens": (1, 131072)}
workloads = {"odd": {"tokens": 3001}}
checks = {"small": {"tokens": 1}}


class Model(nn.Module):
    """gelu(x W^T + b), x of shape (tokens, inputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.Linear(inputs, outputs, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.up(x))


def get_inputs(tokens: int = 65536) -> list[torch.Tensor]:
    return [torch.randn(tokens, 1024, dtype=torch.bfloat16)]


def get_init_inputs() -> list[int]:
    return [1024, 4096]
