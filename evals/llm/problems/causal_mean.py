"""Mean of everything up to each step, along a dimension that is not the last one, float32."""

import torch
from torch import nn

ranges = {"batch": (1, 256), "steps": (1, 8192), "channels": (1, 4096)}
workloads = {"odd": {"batch": 7, "steps": 1999, "channels": 1021}}
checks = {"small": {"batch": 2, "steps": 37, "channels": 19}}


class Model(nn.Module):
    """y[b, t, c] = mean of x[b, 0..t, c]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
        return torch.cumsum(x, dim=1) / count[None, :, None]


def get_inputs(batch: int = 32, steps: int = 2048, channels: int = 1024) -> list[torch.Tensor]:
    return [torch.randn(batch, steps, channels)]


def get_init_inputs() -> list[int]:
    return []
