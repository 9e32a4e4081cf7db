"""Sums of everything before each element of a masked row, float32."""

import torch
from torch import nn

ranges = {"rows": (1, 65536), "columns": (1, 65536)}
workloads = {"odd": {"rows": 333, "columns": 20011}}
checks = {"small": {"rows": 3, "columns": 77}}


class Model(nn.Module):
    """cumsum(x * mask) - x * mask along the rows of x (rows, columns)."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        kept = x * mask
        return torch.cumsum(kept, dim=1) - kept


def get_inputs(rows: int = 8192, columns: int = 4096) -> list[torch.Tensor]:
    return [torch.randn(rows, columns), torch.rand(rows, columns) < 0.7]


def get_init_inputs() -> list[int]:
    return []
