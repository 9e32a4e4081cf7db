"""Twice a large flat bfloat16 tensor: exact, and two bytes an element."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def get_inputs(n: int = 1 << 27) -> list[torch.Tensor]:
    return [torch.randn(n, dtype=torch.bfloat16)]
