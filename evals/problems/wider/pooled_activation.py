"""A scale and shift of channels, ReLU, and the maximum of overlapping windows, float32."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"batch": (1, 256), "height": (3, 448), "width": (3, 448)}
workloads = {"odd": {"batch": 5, "height": 115, "width": 131}}
checks = {"small": {"batch": 1, "height": 7, "width": 6}}


class Model(nn.Module):
    """max_pool(relu(scale * x + shift)), x (batch, 64, height, width)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels, 1, 1))
        self.shift = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(torch.relu(self.scale * x + self.shift), 3, stride=2, padding=1)


def get_inputs(batch: int = 64, height: int = 112, width: int = 112) -> list[torch.Tensor]:
    return [torch.randn(batch, 64, height, width)]


def get_init_inputs() -> list[int]:
    return [64]
