"""A 3x3 convolution, a bias, what skips it, and a ReLU, float32."""

import torch
from torch import nn

ranges = {"batch": (1, 512), "height": (1, 224), "width": (1, 224)}
workloads = {"odd": {"batch": 5, "height": 45, "width": 61}}
checks = {"small": {"batch": 1, "height": 5, "width": 7}}


class Model(nn.Module):
    """relu(conv(x) + x), x (batch, 64, height, width)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x) + x)


def get_inputs(batch: int = 256, height: int = 56, width: int = 56) -> list[torch.Tensor]:
    return [torch.randn(batch, 64, height, width)]


def get_init_inputs() -> list[int]:
    return [64]
