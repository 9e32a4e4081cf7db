"""The same affine map 128 times over: arithmetic on little data, each step waiting for the one before."""

import torch
from torch import nn

STEPS = 128


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(STEPS):
            x = x * 0.99 + 0.01
        return x


def get_inputs(n: int = 1 << 26) -> list[torch.Tensor]:
    return [torch.randn(n)]
