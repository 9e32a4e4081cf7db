"""Attention scores with a relative position bias, bfloat16: batched q k^T, scaled, plus one bias a head."""

import torch
from torch import nn

ranges = {"batch": (1, 64), "heads": (1, 64), "queries": (1, 4096), "keys": (1, 4096)}
workloads = {"odd": {"batch": 3, "heads": 5, "queries": 577, "keys": 601}}
checks = {"small": {"batch": 2, "heads": 2, "queries": 48, "keys": 50}}


class Model(nn.Module):
    """scale * q k^T + bias; q (batch, heads, queries, 64), k (batch, heads, keys, 64), bias (heads, queries, keys)."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, q: torch.Tensor, k: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.matmul(q, k.transpose(-2, -1)) * self.scale + bias


def get_inputs(batch: int = 8, heads: int = 16, queries: int = 1536, keys: int = 1536) -> list[torch.Tensor]:
    return [
        torch.randn(batch, heads, queries, 64, dtype=torch.bfloat16),
        torch.randn(batch, heads, keys, 64, dtype=torch.bfloat16),
        torch.randn(heads, queries, keys, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[float]:
    return [0.125]
