"""relu of a tensor that one block could take."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def get_inputs(n: int = 1 << 15) -> list[torch.Tensor]:
    return [torch.randn(n)]
