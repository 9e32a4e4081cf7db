"""Exponential moving average of weights, updated in place, float32."""

import torch
from torch import nn

ranges = {"rows": (1, 65536), "columns": (1, 65536)}
workloads = {"odd": {"rows": 1009, "columns": 4093}}
checks = {"small": {"rows": 60, "columns": 200}}


class Model(nn.Module):
    """average <- decay * average + (1 - decay) * weight, in the caller's tensor, which is also returned."""

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay

    def forward(self, average: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        average.mul_(self.decay)
        average.add_(weight, alpha=1 - self.decay)
        return average


def get_inputs(rows: int = 12288, columns: int = 8192) -> list[torch.Tensor]:
    return [torch.randn(rows, columns), torch.randn(rows, columns)]


def get_init_inputs() -> list[float]:
    return [0.9]
