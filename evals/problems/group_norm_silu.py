"""Group norm and SiLU of a diffusion U-Net's residual block, float32."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"batch": (1, 128), "height": (1, 256), "width": (1, 256)}
workloads = {"odd": {"batch": 5, "height": 45, "width": 37}}
checks = {"small": {"batch": 1, "height": 3, "width": 5}}


class Model(nn.Module):
    """silu(group_norm(x)), x of shape (batch, channels, height, width)."""

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.2)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x))


def get_inputs(batch: int = 24, height: int = 96, width: int = 96) -> list[torch.Tensor]:
    return [torch.randn(batch, 256, height, width)]


def get_init_inputs() -> list[int]:
    return [32, 256]
