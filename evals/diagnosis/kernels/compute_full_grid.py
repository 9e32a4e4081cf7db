"""Long chains of multiply-adds, four in every thread of a full grid: the multiply-add units never rest.

problem: affine_chain
expect: compute
"""

import cupy
import numpy
import torch
from torch import nn

SOURCE = """
extern "C" __global__ void chain(const float4* x, float4* y, float a, float b, int wide) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= wide) return;
    float4 v = x[i];
    // In registers of its own, and for four chains in a row: a register that the instruction before has read already
    // costs no port. A single chain stalls on dispatch half of the time.
    float scale = fmaf(0.f, v.x, a), shift = fmaf(0.f, v.x, b);
#pragma unroll
    for (int step = 0; step < 128; ++step) {
        v.x = fmaf(v.x, scale, shift);
        v.y = fmaf(v.y, scale, shift);
        v.z = fmaf(v.z, scale, shift);
        v.w = fmaf(v.w, scale, shift);
    }
    y[i] = v;
}
"""
CHAIN = cupy.RawModule(code=SOURCE).get_function("chain")


class ModelNew(nn.Module):
    def forward(self, x):
        x = x if x.data_ptr() % 16 == 0 else x.clone()
        y = torch.empty_like(x)
        wide = x.numel() // 4
        arguments = (x.data_ptr(), y.data_ptr(), numpy.float32(0.99), numpy.float32(0.01), numpy.int32(wide))
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            CHAIN((-(-wide // 256),), (256,), arguments)
        return y
