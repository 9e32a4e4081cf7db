"""Attention in which every token sees itself and the 255 before it, bfloat16."""

import torch
from torch import nn
from torch.nn import functional

ranges = {"batch": (1, 16), "tokens": (1, 8192)}
workloads = {"odd": {"batch": 1, "tokens": 3001}}
checks = {"small": {"batch": 1, "tokens": 301}}


class Model(nn.Module):
    """softmax(q k^T / sqrt(64) where 0 <= i - j < window) v, over (batch, heads, tokens, 64)."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        position = torch.arange(q.shape[2], device=q.device)
        distance = position[:, None] - position[None, :]
        seen = (distance >= 0) & (distance < self.window)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def get_inputs(batch: int = 2, tokens: int = 4096) -> list[torch.Tensor]:
    return [torch.randn(batch, 8, tokens, 64, dtype=torch.bfloat16) for _ in range(3)]


def get_init_inputs() -> list[int]:
    return [256]
