"""Neighbouring threads take elements that are 16 KB apart, reading and writing.

problem: relu_wide
expect: uncoalesced
"""

import cupy
import numpy
import torch
from torch import nn

SOURCE = """
extern "C" __global__ void relu(const float* x, float* y, int parts, int part) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    long long at = i % parts * part + i / parts;
    if (i < (long long)parts * part) y[at] = fmaxf(x[at], 0.f);
}
"""
RELU = cupy.RawModule(code=SOURCE).get_function("relu")
PARTS = 1 << 14


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            sizes = (numpy.int32(PARTS), numpy.int32(n // PARTS))
            RELU((n // 256,), (256,), (x.data_ptr(), y.data_ptr(), *sizes))
        return y
