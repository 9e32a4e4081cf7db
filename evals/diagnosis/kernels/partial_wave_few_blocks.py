"""48 blocks for all the work: most multiprocessors have none.

problem: affine_chain
expect: partial_wave
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


class ModelNew(nn.Module):
    def forward(self, x):
        result = torch.empty_like(x)
        n, stream = x.numel(), torch.cuda.current_stream().cuda_stream
        with cupy.cuda.ExternalStream(stream):
            arguments = (x.data_ptr(), result.data_ptr(), numpy.float32(0.99), numpy.float32(0.01), numpy.int32(n))
            CHAIN((48,), (1024,), arguments)
        return result
