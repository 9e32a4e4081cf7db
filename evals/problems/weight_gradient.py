"""Weight gradient of a linear layer, float32: a product whose first operand is a transposed view."""

import torch
from torch import nn

precision = "reference"
ranges = {"tokens": (1, 65536), "outputs": (1, 8192), "inputs": (1, 8192)}
workloads = {"odd": {"tokens": 2039, "outputs": 1021, "inputs": 1531}}
checks = {"small": {"tokens": 96, "outputs": 130, "inputs": 67}}


class Model(nn.Module):
    """gradient @ x; gradient is (outputs, tokens) as a transposed view, x is (tokens, inputs)."""

    def forward(self, gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return gradient @ x


def get_inputs(tokens: int = 8191, outputs: int = 2048, inputs: int = 4096) -> list[torch.Tensor]:
    return [torch.randn(tokens, outputs).t(), torch.randn(tokens, inputs)]


def get_init_inputs() -> list[int]:
    return []
