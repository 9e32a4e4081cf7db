"""Whole vectors, thousands of programs, one pass: as fast as memory.

problem: relu_wide
expect: memory
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.maximum(value, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096, num_warps=8)
        return y
