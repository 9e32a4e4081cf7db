"""A float32 matrix turned over in memory."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.t().contiguous()


def get_inputs(rows: int = 8192, columns: int = 8192) -> list[torch.Tensor]:
    return [torch.randn(rows, columns)]
