"""Every thread reads two bytes, writes two, and goes on.

problem: double_bf16
expect: scalar_loads
"""

import cupy
import numpy
import torch
from torch import nn

SOURCE = """
#include <cuda_bf16.h>
extern "C" __global__ void doubled(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = __float2bfloat16(2.f * __bfloat162float(x[i]));
}
"""
DOUBLED = cupy.RawModule(code=SOURCE, options=("-std=c++17",)).get_function("doubled")


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            DOUBLED((1056,), (256,), (x.data_ptr(), y.data_ptr(), numpy.int32(x.numel())))
        return y
