"""Layer-scaled residual of a vision transformer, float32; the branch arrives token-major, so it is not contiguous."""

import torch
from torch import nn

ranges = {"batch": (1, 256), "tokens": (1, 4096)}
workloads = {"odd": {"batch": 13, "tokens": 257}}
checks = {"small": {"batch": 2, "tokens": 7}}


class Model(nn.Module):
    """x + gamma * branch, both (batch, tokens, channels), gamma one value a channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(0.1 * torch.randn(channels))

    def forward(self, x: torch.Tensor, branch: torch.Tensor) -> torch.Tensor:
        return x + self.gamma * branch


def get_inputs(batch: int = 96, tokens: int = 577) -> list[torch.Tensor]:
    branch = torch.randn(tokens, batch, 1024).transpose(0, 1)
    return [torch.randn(batch, tokens, 1024), branch]


def get_init_inputs() -> list[int]:
    return [1024]
