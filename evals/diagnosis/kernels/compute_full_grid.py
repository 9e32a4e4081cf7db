"""A long chain of multiply-adds in every thread of a full grid: the multiply-add units never rest.

problem: affine_chain
expect: compute
"""

import cupy
import numpy
import torch
from torch import nn

SOURCE = """
extern "C" __global__ void chain(const float* x, float* y, float a, float b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i];
    // In registers of its own: operands that all threads share come through a port of half the rate.
    float scale = fmaf(0.f, value, a), shift = fmaf(0.f, value, b);
#pragma unroll
    for (int step = 0; step < 128; ++step) value = fmaf(value, scale, shift);
    y[i] = value;
}
"""
CHAIN = cupy.RawModule(code=SOURCE).get_function("chain")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        arguments = (x.data_ptr(), y.data_ptr(), numpy.float32(0.99), numpy.float32(0.01), numpy.int32(n))
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            CHAIN((-(-n // 256),), (256,), arguments)
        return y
