"""One block more than fit at once, each with the same long piece: nearly half the time one block runs alone.

problem: affine_chain
expect: tail
"""

import cupy
import numpy
import torch
from torch import nn

SOURCE = """
extern "C" __global__ void chain(const float* x, float* y, float a, float b, int n) {
    int part = (n + gridDim.x - 1) / gridDim.x;
    int start = blockIdx.x * part, end = min(n, start + part);
    for (int i = start + threadIdx.x; i < end; i += blockDim.x) {
        float value = x[i];
#pragma unroll
        for (int step = 0; step < 128; ++step) value = fmaf(value, a, b);
        y[i] = value;
    }
}
"""
CHAIN = cupy.RawModule(code=SOURCE).get_function("chain")
BLOCKS = 2 * 132 + 1


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        factors = (numpy.float32(0.99), numpy.float32(0.01))
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            CHAIN((BLOCKS,), (1024,), (x.data_ptr(), y.data_ptr(), *factors, numpy.int32(x.numel())))
        return y
