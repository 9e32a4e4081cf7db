"""192 values kept in registers through a loop that reads one vector at a time: eight warps fit on a multiprocessor.

problem: relu_wide
expect: occupancy
"""

import cupy
import numpy
import torch
from torch import nn

SOURCE = """
extern "C" __global__ void __launch_bounds__(128, 2) relu(const float4* x, float4* y, int wide) {
    float kept[192];
    const float* first = reinterpret_cast<const float*>(x);
#pragma unroll
    for (int i = 0; i < 192; ++i) asm volatile("ld.global.f32 %0, [%1];" : "=f"(kept[i]) : "l"(first + i));
    float last = 0.5f;
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < wide; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
        last = v.x;
        y[i] = make_float4(fmaxf(v.x, 0.f), fmaxf(v.y, 0.f), fmaxf(v.z, 0.f), fmaxf(v.w, 0.f));
    }
    float total = 0.f;
#pragma unroll
    for (int i = 0; i < 192; ++i) total = fmaf(total, last, kept[i]);
    // Never true: every value is needed after the loop, and nothing is written.
    if (total == 1.2345678e30f) y[0].x = total;
}
"""
RELU = cupy.RawModule(code=SOURCE).get_function("relu")


class ModelNew(nn.Module):
    def forward(self, x):
        x = x if x.data_ptr() % 16 == 0 else x.clone()
        y = torch.empty_like(x)
        wide = x.numel() // 4
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            RELU((1056,), (128,), (x.data_ptr(), y.data_ptr(), numpy.int32(wide)))
        return y
