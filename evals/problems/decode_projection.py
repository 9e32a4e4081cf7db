"""One decoding step through a large projection at batch 4, bfloat16: bound by reading the weights."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"batch": (1, 64), "inputs": (16, 16384), "outputs": (16, 65536)}
workloads = {"odd": {"batch": 7, "inputs": 4104, "outputs": 5003}}
checks = {"small": {"batch": 2, "inputs": 160, "outputs": 200}}


class Model(nn.Module):
    """x W^T + b; x (batch, inputs), W (outputs, inputs), b (outputs)."""

    def forward(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.linear(x, weight, bias)


def get_inputs(batch: int = 4, inputs: int = 8192, outputs: int = 28672) -> list[torch.Tensor]:
    weight = torch.randn(outputs, inputs, dtype=torch.bfloat16) / inputs**0.5
    return [
        torch.randn(batch, inputs, dtype=torch.bfloat16),
        weight,
        torch.randn(outputs, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[int]:
    return []
