"""16 launches of a kernel that takes two thousand elements.

problem: relu_tiny
expect: launch
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu(x, y, start, BLOCK: tl.constexpr):
    at = start + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at), 0.0))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        for start in range(0, x.numel(), 2048):
            relu[(1,)](x, y, start, BLOCK=2048)
        return y
