"""Dequantises int8 weights with a scale and a zero point for each group of 128 columns, to bfloat16."""

import torch
from torch import nn

ranges = {"rows": (1, 32768), "groups": (1, 128)}
workloads = {"odd": {"rows": 5003, "groups": 37}}
checks = {"small": {"rows": 48, "groups": 3}}


class Model(nn.Module):
    """(q - zero) * scale; q is (rows, groups, 128), zero and scale are (rows, groups, 1)."""

    def forward(self, q: torch.Tensor, zero: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return ((q.float() - zero) * scale).to(torch.bfloat16)


def get_inputs(rows: int = 28672, groups: int = 64) -> list[torch.Tensor]:
    q = torch.randint(-128, 128, (rows, groups, 128), dtype=torch.int8)
    zero = torch.randint(-16, 17, (rows, groups, 1)).float()
    scale = 0.01 + 0.002 * torch.randn(rows, groups, 1)
    return [q, zero, scale]


def get_init_inputs() -> list[int]:
    return []
