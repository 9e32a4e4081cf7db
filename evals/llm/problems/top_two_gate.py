"""The gate of a mixture of experts: the two largest scores of each token, as weights and positions, float32."""

import torch
from torch import nn

ranges = {"tokens": (1, 1 << 20), "experts": (2, 512)}
workloads = {"odd": {"tokens": 65537, "experts": 193}}
checks = {"small": {"tokens": 33, "experts": 7}}


class Model(nn.Module):
    """Softmax of the two largest of (tokens, experts), and where they are."""

    def forward(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, positions = torch.topk(scores, 2, dim=-1)
        return torch.softmax(values, dim=-1), positions


def get_inputs(tokens: int = 524288, experts: int = 128) -> list[torch.Tensor]:
    return [torch.randn(tokens, experts)]


def get_init_inputs() -> list[int]:
    return []
