"""Attention from a few queries to many keys of which some are padding, bfloat16."""

import torch
from torch import nn
from torch.nn import functional as F

ranges = {"batch": (1, 128), "queries": (1, 1024), "keys": (1, 8192)}
workloads = {"odd": {"batch": 7, "queries": 100, "keys": 3001}}
checks = {"small": {"batch": 2, "queries": 5, "keys": 9}}


class Model(nn.Module):
    """Attention of q (batch, 8, queries, 128) to k, v (batch, 8, keys, 128) where `present` (batch, keys) holds."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=present[:, None, None, :])


def get_inputs(batch: int = 32, queries: int = 256, keys: int = 2048) -> list[torch.Tensor]:
    factors = [torch.randn(batch, 8, rows, 128, dtype=torch.bfloat16) for rows in (queries, keys, keys)]
    return [*factors, torch.rand(batch, keys) < 0.8]


def get_init_inputs() -> list[int]:
    return []
