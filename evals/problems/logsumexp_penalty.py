"""Log-normaliser of bfloat16 logits and its squared penalty, both float32 (the z-loss of large-model training)."""

import torch
from torch import nn

ranges = {"tokens": (1, 32768), "vocabulary": (2, 262144)}
workloads = {"odd": {"tokens": 257, "vocabulary": 50257}}
checks = {"small": {"tokens": 6, "vocabulary": 3000}}


class Model(nn.Module):
    """logsumexp over the last dimension of (tokens, vocabulary), and weight times its square."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        normaliser = torch.logsumexp(logits.float(), dim=-1)
        return normaliser, self.weight * normaliser.square()


def get_inputs(tokens: int = 8192, vocabulary: int = 32000) -> list[torch.Tensor]:
    return [3 * torch.randn(tokens, vocabulary, dtype=torch.bfloat16)]


def get_init_inputs() -> list[float]:
    return [1e-4]
