"""128 values a thread in a block of 1024 threads, which leaves 64 registers to each.

problem: column_softmax
expect: spills
"""

import cupy
import numpy
import torch
from torch import nn

SOURCE = """
extern "C" __global__ void __launch_bounds__(1024) softmax(const float* x, float* y, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float held[128], top = -3.4e38f, total = 0.f;
#pragma unroll
    for (int row = 0; row < 128; ++row) {
        held[row] = x[(long long)row * columns + column];
        top = fmaxf(top, held[row]);
    }
#pragma unroll
    for (int row = 0; row < 128; ++row) {
        held[row] = expf(held[row] - top);
        total += held[row];
    }
#pragma unroll
    for (int row = 0; row < 128; ++row) y[(long long)row * columns + column] = held[row] / total;
}
"""
SOFTMAX = cupy.RawModule(code=SOURCE).get_function("softmax")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        columns = x.shape[1]
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            SOFTMAX((-(-columns // 1024),), (1024,), (x.data_ptr(), y.data_ptr(), numpy.int32(columns)))
        return y
