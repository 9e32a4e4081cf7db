"""A thread a column walks down it, adding: four warps a multiprocessor, and each step waits for its load.

problem: column_sums
expect: latency
"""

import cupy
import numpy
import torch
from torch import nn

SOURCE = """
extern "C" __global__ void walk(const float* x, float* y, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float total = 0.f;
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
        total += x[(long long)row * columns + column];
        y[(long long)row * columns + column] = total;
    }
}
"""
WALK = cupy.RawModule(code=SOURCE).get_function("walk")


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            sizes = (numpy.int32(rows), numpy.int32(columns))
            WALK((-(-columns // 128),), (128,), (x.data_ptr(), y.data_ptr(), *sizes))
        return y
