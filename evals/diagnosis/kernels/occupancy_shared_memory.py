"""Blocks of four warps that ask for 200 KB of shared memory each: one fits on a multiprocessor.

problem: relu_wide
expect: occupancy
"""

import cupy
import numpy
import torch
from torch import nn

SOURCE = """
extern "C" __global__ void relu(const float4* x, float4* y, int wide) {
    extern __shared__ float4 staged[];
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < wide; i += gridDim.x * blockDim.x) {
        staged[threadIdx.x] = x[i];
        __syncthreads();
        float4 v = staged[threadIdx.x];
        y[i] = make_float4(fmaxf(v.x, 0.f), fmaxf(v.y, 0.f), fmaxf(v.z, 0.f), fmaxf(v.w, 0.f));
        __syncthreads();
    }
}
"""
RELU = cupy.RawModule(code=SOURCE).get_function("relu")
SHARED_BYTES = 200 << 10
RELU.max_dynamic_shared_size_bytes = SHARED_BYTES


class ModelNew(nn.Module):
    def forward(self, x):
        x = x if x.data_ptr() % 16 == 0 else x.clone()
        y = torch.empty_like(x)
        wide = x.numel() // 4
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            arguments = (x.data_ptr(), y.data_ptr(), numpy.int32(wide))
            RELU((1056,), (128,), arguments, shared_mem=SHARED_BYTES)
        return y
