"""Attention with a learned bias for each pair of places, written out, bfloat16."""

import torch
from torch import nn

ranges = {"batch": (1, 256), "tokens": (1, 2048)}
workloads = {"odd": {"batch": 5, "tokens": 1021}}
checks = {"small": {"batch": 1, "tokens": 13}}


class Model(nn.Module):
    """softmax(q k^T / sqrt(depth) + bias) v; q, k, v (batch, heads, tokens, depth), bias (heads, tokens, tokens)."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + bias
        return torch.softmax(scores, dim=-1) @ v


def get_inputs(batch: int = 64, tokens: int = 784) -> list[torch.Tensor]:
    heads, depth = 12, 64
    factors = [torch.randn(batch, heads, tokens, depth, dtype=torch.bfloat16) for _ in range(3)]
    return [*factors, torch.randn(heads, tokens, tokens, dtype=torch.bfloat16)]


def get_init_inputs() -> list[int]:
    return []
