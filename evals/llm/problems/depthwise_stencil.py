"""A 3 x 3 stencil with its own weights a channel, zero border, added to the input, float32."""

import torch
from torch import nn
from torch.nn import functional

ranges = {"batch": (1, 256), "height": (3, 512), "width": (3, 512)}
workloads = {"odd": {"batch": 33, "height": 127, "width": 131}}
checks = {"small": {"batch": 1, "height": 9, "width": 7}}


class Model(nn.Module):
    """y = x + stencil(x) over (batch, channels, height, width)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.3 * torch.randn(channels, 1, 3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + functional.conv2d(x, self.weight, padding=1, groups=self.weight.shape[0])


def get_inputs(batch: int = 96, height: int = 128, width: int = 128) -> list[torch.Tensor]:
    return [torch.randn(batch, 32, height, width)]


def get_init_inputs() -> list[int]:
    return [32]
