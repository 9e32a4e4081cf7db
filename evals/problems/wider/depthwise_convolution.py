"""A 7x7 convolution of each channel by itself, float32."""

import torch
from torch import nn

ranges = {"batch": (1, 256), "height": (1, 224), "width": (1, 224)}
workloads = {"odd": {"batch": 7, "height": 61, "width": 45}}
checks = {"small": {"batch": 1, "height": 8, "width": 9}}


class Model(nn.Module):
    """conv(x), x (batch, channels, height, width)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs(batch: int = 128, height: int = 56, width: int = 56) -> list[torch.Tensor]:
    return [torch.randn(batch, 96, height, width)]


def get_init_inputs() -> list[int]:
    return [96]
