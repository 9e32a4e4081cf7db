"""Bias and tanh-GELU after the first projection of a transformer's feed-forward block, bfloat16."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"tokens": (1, 65536)}
workloads = {"odd": {"tokens": 4099}}
checks = {"small": {"tokens": 3}}


class Model(nn.Module):
    """gelu_tanh(x + bias), x of shape (tokens, features)."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x + self.bias, approximate="tanh")


def get_inputs(tokens: int = 16384) -> list[torch.Tensor]:
    return [torch.randn(tokens, 8192, dtype=torch.bfloat16)]


def get_init_inputs() -> list[int]:
    return [8192]
