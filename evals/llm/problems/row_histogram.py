"""Weighted histograms: each row's items are added to the bins that they name, float32 and int64."""

import torch
from torch import nn

ranges = {"rows": (1, 65536), "items": (1, 65536)}
workloads = {"odd": {"rows": 1021, "items": 12289}}
checks = {"small": {"rows": 5, "items": 301}}


class Model(nn.Module):
    """out[r, b] = sum of weights[r, i] over the items i with bins[r, i] = b."""

    def __init__(self, bins: int) -> None:
        super().__init__()
        self.bins = bins

    def forward(self, weights: torch.Tensor, bins: torch.Tensor) -> torch.Tensor:
        empty = weights.new_zeros(weights.shape[0], self.bins)
        return empty.scatter_add(1, bins, weights)


def get_inputs(rows: int = 4096, items: int = 16384) -> list[torch.Tensor]:
    return [torch.randn(rows, items), torch.randint(0, 256, (rows, items))]


def get_init_inputs() -> list[int]:
    return [256]
