"""Folded batch norm and hard-swish of a mobile convolution block, float32, with odd spatial sizes."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"batch": (1, 256), "height": (1, 512), "width": (1, 512)}
workloads = {"odd": {"batch": 7, "height": 57, "width": 55}}
checks = {"small": {"batch": 2, "height": 9, "width": 11}}


class Model(nn.Module):
    """hardswish(x * scale + shift), x of shape (batch, channels, height, width), one scale and shift a channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(1 + 0.2 * torch.randn(channels, 1, 1))
        self.shift = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(x * self.scale + self.shift)


def get_inputs(batch: int = 64, height: int = 113, width: int = 113) -> list[torch.Tensor]:
    return [torch.randn(batch, 96, height, width)]


def get_init_inputs() -> list[int]:
    return [96]
