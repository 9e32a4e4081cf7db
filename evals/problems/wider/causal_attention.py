"""Causal attention of a language model's layer, float32, as a call of PyTorch's own."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"batch": (1, 32), "heads": (1, 64), "tokens": (1, 4096)}
workloads = {"odd": {"batch": 3, "heads": 5, "tokens": 1531}}
checks = {"small": {"batch": 1, "heads": 2, "tokens": 37}}


class Model(nn.Module):
    """softmax(q k^T / 8, causal) v; q, k, v (batch, heads, tokens, 64)."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs(batch: int = 8, heads: int = 16, tokens: int = 2048) -> list[torch.Tensor]:
    return [torch.randn(batch, heads, tokens, 64) for _ in range(3)]


def get_init_inputs() -> list[int]:
    return []
