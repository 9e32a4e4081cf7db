"""Smooth L1 loss of a detector's box regression, float32: everything is reduced to one number."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"batch": (1, 1024), "boxes": (1, 65536)}
workloads = {"odd": {"batch": 13, "boxes": 8191}}
checks = {"small": {"batch": 3, "boxes": 900}}


class Model(nn.Module):
    """Mean over (batch, boxes, 4) of the Huber-like loss of prediction minus target."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(prediction, target, beta=self.beta)


def get_inputs(batch: int = 512, boxes: int = 24564) -> list[torch.Tensor]:
    return [torch.randn(batch, boxes, 4), torch.randn(batch, boxes, 4)]


def get_init_inputs() -> list[float]:
    return [0.5]
