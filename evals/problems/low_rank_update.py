"""A low-rank adapter on top of a projection's output, bfloat16: two thin products, scaled and added."""

import torch
from torch import nn

ranges = {"tokens": (1, 65536), "inputs": (16, 8192), "outputs": (16, 8192), "rank": (1, 128)}
workloads = {"odd": {"tokens": 1531, "inputs": 1160, "outputs": 1027, "rank": 24}}
checks = {"small": {"tokens": 20, "inputs": 512, "outputs": 384, "rank": 16}}


class Model(nn.Module):
    """base + scale * (x A) B; x (tokens, inputs), A (inputs, rank), B (rank, outputs), base (tokens, outputs)."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, base: torch.Tensor, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return base + self.scale * ((x @ a) @ b)


def get_inputs(tokens: int = 32768, inputs: int = 4096, outputs: int = 4096, rank: int = 16) -> list[torch.Tensor]:
    return [
        torch.randn(tokens, outputs, dtype=torch.bfloat16),
        torch.randn(tokens, inputs, dtype=torch.bfloat16),
        torch.randn(inputs, rank, dtype=torch.bfloat16) / inputs**0.5,
        torch.randn(rank, outputs, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[float]:
    return [2.0]
