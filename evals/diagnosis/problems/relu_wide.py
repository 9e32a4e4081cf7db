"""relu of a large flat float32 tensor: nothing but memory traffic."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def get_inputs(n: int = 1 << 26) -> list[torch.Tensor]:
    return [torch.randn(n)]
