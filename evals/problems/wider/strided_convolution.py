"""A convolution that halves an image, its normalisation in evaluation, and SiLU, bfloat16."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"batch": (1, 512), "height": (2, 224), "width": (2, 224)}
workloads = {"odd": {"batch": 9, "height": 57, "width": 43}}
checks = {"small": {"batch": 1, "height": 6, "width": 9}}


class Model(nn.Module):
    """silu(norm(conv(x))), x (batch, inputs, height, width)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.2)
        self.to(torch.bfloat16).eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(self.conv(x)))


def get_inputs(batch: int = 384, height: int = 56, width: int = 56) -> list[torch.Tensor]:
    return [torch.randn(batch, 96, height, width, dtype=torch.bfloat16)]


def get_init_inputs() -> list[int]:
    return [96, 192]
