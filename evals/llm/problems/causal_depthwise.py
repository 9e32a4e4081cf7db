"""A causal convolution over four steps, each channel by itself, with bias and SiLU, bfloat16."""

import torch
from torch import nn
from torch.nn import functional

ranges = {"batch": (1, 256), "steps": (4, 16384)}
workloads = {"odd": {"batch": 31, "steps": 4093}}
checks = {"small": {"batch": 1, "steps": 21}}


class Model(nn.Module):
    """y = silu(bias + sum over k of weight[c, k] * x[b, c, t - 3 + k])."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.5 * torch.randn(channels, 1, width, dtype=torch.bfloat16))
        self.bias = nn.Parameter(torch.randn(channels, dtype=torch.bfloat16))
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, channels = x.shape[2], self.weight.shape[0]
        y = functional.conv1d(x, self.weight, self.bias, padding=self.width - 1, groups=channels)
        return functional.silu(y[:, :, :steps])


def get_inputs(batch: int = 128, steps: int = 4096) -> list[torch.Tensor]:
    return [torch.randn(batch, 256, steps, dtype=torch.bfloat16)]


def get_init_inputs() -> list[int]:
    return [256, 4]
