"""An image doubled bilinearly, and what skipped the halving, float32."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"batch": (1, 128), "height": (1, 256), "width": (1, 256)}
workloads = {"odd": {"batch": 3, "height": 45, "width": 37}}
checks = {"small": {"batch": 1, "height": 3, "width": 5}}


class Model(nn.Module):
    """interpolate(x) + skip; x (batch, 64, height, width), skip twice as high and wide."""

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False) + skip


def get_inputs(batch: int = 32, height: int = 64, width: int = 64) -> list[torch.Tensor]:
    return [torch.randn(batch, 64, height, width), torch.randn(batch, 64, 2 * height, 2 * width)]


def get_init_inputs() -> list[int]:
    return []
