"""Embeddings of words and places, added and normalised, float32."""

import torch
from torch import nn

ranges = {"batch": (1, 1024), "tokens": (1, 1024)}
workloads = {"odd": {"batch": 17, "tokens": 509}}
checks = {"small": {"batch": 2, "tokens": 11}}


class Model(nn.Module):
    """layer_norm(words[ids] + places[:tokens]), ids (batch, tokens)."""

    def __init__(self, words: int, places: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(places, width))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(self.words(ids) + self.places[: ids.shape[1]])


def get_inputs(batch: int = 160, tokens: int = 512) -> list[torch.Tensor]:
    return [torch.randint(0, 1000, (batch, tokens))]


def get_init_inputs() -> list[int]:
    return [1000, 1024, 768]
