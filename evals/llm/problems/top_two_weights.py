"""What the two best experts of each token count for: a softmax over the two largest scores, float32."""

import torch
from torch import nn

ranges = {"tokens": (1, 1 << 20), "experts": (2, 512)}
workloads = {"odd": {"tokens": 65537, "experts": 193}}
checks = {"small": {"tokens": 33, "experts": 7}}


class Model(nn.Module):
    """(tokens, 2) from (tokens, experts): the larger weight first."""

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.topk(scores, 2, dim=-1).values, dim=-1)


def get_inputs(tokens: int = 524288, experts: int = 128) -> list[torch.Tensor]:
    return [torch.randn(tokens, experts)]


def get_init_inputs() -> list[int]:
    return []
