"""RMS norm after a residual addition, bfloat16 in and out, float32 inside."""

import torch
from torch import nn

ranges = {"tokens": (1, 65536)}
workloads = {"odd": {"tokens": 3001}}
checks = {"small": {"tokens": 3}}


class Model(nn.Module):
    """weight * s / rms(s) with s = x + residual, over the last dimension of (tokens, features)."""

    def __init__(self, features: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.2 * torch.randn(features, dtype=torch.bfloat16))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        total = x.float() + residual.float()
        mean_square = total.square().mean(dim=-1, keepdim=True)
        return (total * torch.rsqrt(mean_square + self.epsilon)).to(x.dtype) * self.weight


def get_inputs(tokens: int = 32768) -> list[torch.Tensor]:
    return [torch.randn(tokens, 4096, dtype=torch.bfloat16), torch.randn(tokens, 4096, dtype=torch.bfloat16)]


def get_init_inputs() -> list[float]:
    return [4096, 1e-5]
