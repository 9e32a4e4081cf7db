"""Pre-norm residual, float32: returns the normalised sum and the sum that the next block needs."""

import torch
from torch import nn

ranges = {"tokens": (1, 65536)}
workloads = {"odd": {"tokens": 4111}}
checks = {"small": {"tokens": 5}}


class Model(nn.Module):
    """layer_norm(x + residual) and x + residual, both (tokens, features)."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.2)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + residual
        return self.norm(total), total


def get_inputs(tokens: int = 24576) -> list[torch.Tensor]:
    return [torch.randn(tokens, 2560), torch.randn(tokens, 2560)]


def get_init_inputs() -> list[int]:
    return [2560]
