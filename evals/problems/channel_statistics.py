"""Batch-norm statistics: mean and variance of each channel over batch and space, float32, as a dict."""

import torch
from torch import nn

ranges = {"batch": (1, 512), "channels": (1, 2048), "height": (1, 512), "width": (1, 512)}
workloads = {"odd": {"batch": 11, "channels": 67, "height": 57, "width": 55}}
checks = {"small": {"batch": 2, "channels": 5, "height": 9, "width": 11}}


class Model(nn.Module):
    """Over dimensions 0, 2 and 3 of (batch, channels, height, width)."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"mean": x.mean(dim=(0, 2, 3)), "variance": x.var(dim=(0, 2, 3), correction=0)}


def get_inputs(batch: int = 64, channels: int = 128, height: int = 100, width: int = 100) -> list[torch.Tensor]:
    return [1.5 + torch.randn(batch, channels, height, width)]


def get_init_inputs() -> list[int]:
    return []
