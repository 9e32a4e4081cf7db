"""Turns a batch of 8-bit images, channels last, into normalised float32 planes, channels first."""

import torch
from torch import nn

ranges = {"batch": (1, 256), "height": (1, 2048), "width": (1, 2048)}
workloads = {"odd": {"batch": 5, "height": 479, "width": 641}}
checks = {"small": {"batch": 2, "height": 30, "width": 40}}


class Model(nn.Module):
    """(image / 255 - mean) / deviation per channel; (batch, height, width, 3) to (batch, 3, height, width)."""

    def __init__(self, mean: list[float], deviation: list[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).view(1, 3, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        planes = images.permute(0, 3, 1, 2).float() / 255
        return ((planes - self.mean) / self.deviation).contiguous()


def get_inputs(batch: int = 48, height: int = 1024, width: int = 1024) -> list[torch.Tensor]:
    return [torch.randint(0, 256, (batch, height, width, 3), dtype=torch.uint8)]


def get_init_inputs() -> list[list[float]]:
    return [[0.48, 0.46, 0.41], [0.23, 0.22, 0.24]]
