"""Scaled softmax over short, odd rows of attention scores, bfloat16."""

import torch
from torch import nn

ranges = {"batch": (1, 128), "heads": (1, 64), "tokens": (1, 4096)}
workloads = {"odd": {"batch": 3, "heads": 5, "tokens": 1025}}
checks = {"small": {"batch": 1, "heads": 2, "tokens": 77}}


class Model(nn.Module):
    """softmax(scale * scores) over the last dimension of (batch, heads, tokens, tokens)."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(scores * self.scale, dim=-1)


def get_inputs(batch: int = 24, heads: int = 16, tokens: int = 577) -> list[torch.Tensor]:
    return [4 * torch.randn(batch, heads, tokens, tokens, dtype=torch.bfloat16)]


def get_init_inputs() -> list[float]:
    return [0.35]
