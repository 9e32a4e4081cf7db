"""A plain projection at full float32 precision."""

import torch
from torch import nn

precision = "reference"
ranges = {"tokens": (1, 65536)}
workloads = {"odd": {"tokens": 2039}}
checks = {"small": {"tokens": 2}}


class Model(nn.Module):
    """x W^T + b, x of shape (tokens, inputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.projection = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.projection(x)


def get_inputs(tokens: int = 32768) -> list[torch.Tensor]:
    return [torch.randn(tokens, 1024)]


def get_init_inputs() -> list[int]:
    return [1024, 2048]
