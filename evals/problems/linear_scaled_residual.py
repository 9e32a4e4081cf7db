"""Down-projection added to the residual stream with a fixed scale, float32."""

import torch
from torch import nn

precision = "reference"
ranges = {"tokens": (1, 65536)}
workloads = {"odd": {"tokens": 1999}}
checks = {"small": {"tokens": 2}}


class Model(nn.Module):
    """residual + scale * (x W^T + b); x (tokens, inputs), residual (tokens, outputs)."""

    def __init__(self, inputs: int, outputs: int, scale: float) -> None:
        super().__init__()
        self.down = nn.Linear(inputs, outputs)
        self.scale = scale

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return residual + self.scale * self.down(x)


def get_inputs(tokens: int = 32768) -> list[torch.Tensor]:
    return [torch.randn(tokens, 2048), torch.randn(tokens, 1024)]


def get_init_inputs() -> list[float]:
    return [2048, 1024, 0.7]
