"""Squared distances of points to a codebook, float32: a product whose epilogue adds both squared lengths."""

import torch
from torch import nn

precision = "reference"
ranges = {"points": (1, 65536), "codes": (1, 32768), "dimension": (1, 1024)}
workloads = {"odd": {"points": 3001, "codes": 1021, "dimension": 99}}
checks = {"small": {"points": 120, "codes": 130, "dimension": 64}}


class Model(nn.Module):
    """|p|^2 + |c|^2 - 2 p c^T; points (points, dimension), codes (codes, dimension)."""

    def forward(self, points: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        point_lengths = points.square().sum(dim=1, keepdim=True)
        code_lengths = codes.square().sum(dim=1)
        return point_lengths + code_lengths - 2 * (points @ codes.t())


def get_inputs(points: int = 16384, codes: int = 8192, dimension: int = 128) -> list[torch.Tensor]:
    return [torch.randn(points, dimension), torch.randn(codes, dimension)]


def get_init_inputs() -> list[int]:
    return []
