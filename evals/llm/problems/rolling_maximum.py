"""The maximum over every 64 neighbouring steps, float32."""

import torch
from torch import nn
from torch.nn import functional

ranges = {"rows": (1, 65536), "steps": (64, 65536)}
workloads = {"odd": {"rows": 1021, "steps": 8191}}
checks = {"small": {"rows": 3, "steps": 203}}


class Model(nn.Module):
    """y[r, t] = max of x[r, t .. t + window - 1], over (rows, steps)."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool1d(x[:, None, :], self.window, stride=1)[:, 0, :]


def get_inputs(rows: int = 8192, steps: int = 8192) -> list[torch.Tensor]:
    return [torch.randn(rows, steps)]


def get_init_inputs() -> list[int]:
    return [64]
