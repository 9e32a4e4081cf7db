"""Rotary position embedding in the half-split layout, bfloat16; the rotated halves come back as a pair."""

import torch
from torch import nn

ranges = {"batch": (1, 64), "tokens": (1, 8192), "heads": (1, 128)}
workloads = {"odd": {"batch": 3, "tokens": 1021, "heads": 25}}
checks = {"small": {"batch": 2, "tokens": 12, "heads": 4}}


class Model(nn.Module):
    """Rotates q of shape (batch, tokens, heads, 128) by angles whose cosine and sine are (tokens, 64)."""

    def forward(self, q: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = q[..., :64], q[..., 64:]
        cosine, sine = cosine[:, None, :], sine[:, None, :]
        return first * cosine - second * sine, second * cosine + first * sine


def get_inputs(batch: int = 8, tokens: int = 4096, heads: int = 40) -> list[torch.Tensor]:
    frequency = 10000.0 ** (-torch.arange(64) / 64)
    angle = torch.arange(tokens)[:, None] * frequency
    return [
        torch.randn(batch, tokens, heads, 128, dtype=torch.bfloat16),
        angle.cos().to(torch.bfloat16),
        angle.sin().to(torch.bfloat16),
    ]


def get_init_inputs() -> list[int]:
    return []
