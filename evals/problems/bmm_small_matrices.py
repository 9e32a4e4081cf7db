"""Many small products, float32: one 48 x 48 transform for each of thousands of items."""

import torch
from torch import nn

precision = "reference"
ranges = {"items": (1, 131072), "size": (1, 256)}
workloads = {"odd": {"items": 1021, "size": 37}}
checks = {"small": {"items": 6, "size": 48}}


class Model(nn.Module):
    """bmm of two (items, size, size) batches."""

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.bmm(left, right)


def get_inputs(items: int = 20000, size: int = 48) -> list[torch.Tensor]:
    return [torch.randn(items, size, size), torch.randn(items, size, size)]


def get_init_inputs() -> list[int]:
    return []
