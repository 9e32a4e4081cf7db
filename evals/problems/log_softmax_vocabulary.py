"""Log-probabilities over a long, odd vocabulary, float32."""

import torch
from torch import nn

ranges = {"tokens": (1, 8192), "vocabulary": (2, 262144)}
workloads = {"odd": {"tokens": 131, "vocabulary": 128257}}
checks = {"small": {"tokens": 5, "vocabulary": 2503}}


class Model(nn.Module):
    """log_softmax(logits / temperature) over the last dimension of (tokens, vocabulary)."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(logits / self.temperature, dim=-1)


def get_inputs(tokens: int = 2048, vocabulary: int = 50257) -> list[torch.Tensor]:
    return [3 * torch.randn(tokens, vocabulary)]


def get_init_inputs() -> list[float]:
    return [0.8]
