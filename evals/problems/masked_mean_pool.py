"""Masked mean pooling of token embeddings, bfloat16: a sum over the middle dimension with a boolean mask."""

import torch
from torch import nn

ranges = {"batch": (1, 512), "tokens": (1, 8192), "features": (1, 8192)}
workloads = {"odd": {"batch": 7, "tokens": 509, "features": 769}}
checks = {"small": {"batch": 2, "tokens": 33, "features": 128}}


class Model(nn.Module):
    """Mean over the unmasked tokens: x (batch, tokens, features), mask (batch, tokens) to (batch, features)."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weight = mask.float()
        total = (x.float() * weight[:, :, None]).sum(dim=1)
        count = weight.sum(dim=1, keepdim=True).clamp(min=1.0)
        return (total / count).to(x.dtype)


def get_inputs(batch: int = 96, tokens: int = 2047, features: int = 1024) -> list[torch.Tensor]:
    return [torch.randn(batch, tokens, features, dtype=torch.bfloat16), torch.rand(batch, tokens) < 0.7]


def get_init_inputs() -> list[int]:
    return []
