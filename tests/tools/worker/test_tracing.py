"""Whose kernels ran: names from a candidate's source, and its share of the GPU time."""

import pytest

from warpsmith.tools.worker.tracing import custom_share, own_kernel_names

SOURCE = """
import cupy, triton
@triton.jit
def fused(x): pass
@triton.autotune(configs=[], key=[])
@triton.jit
def tuned(x): pass
def plain(x): pass
code = r'''
extern "C" __global__ void one(float* x) {}
extern "C" __global__ void __launch_bounds__(256, 2) two(float* x) {}
extern "C" __global__ __launch_bounds__(128) void three(float* x) {}
template <int N> __global__ void four(float* x) {}
__device__ void inner(float* x) {}
'''
"""


def test_kernels_of_both_languages_are_named_and_nothing_else():
    assert own_kernel_names(SOURCE) == {"fused", "tuned", "one", "two", "three", "four"}


@pytest.mark.parametrize(
    ("kernels", "share"),
    [
        ({"fused": 1.0}, 1.0),
        ({"one(float*)": 1.0, "void four<3>(float*)": 1.0}, 1.0),
        ({"fused": 3.0, "void at::native::vectorized_elementwise_kernel<4>(int)": 1.0}, 0.75),
        ({"ampere_sgemm": 2.0}, 0.0),
        ({"inner": 1.0, "plain": 1.0}, 0.0),
        ({}, None),
    ],
)
def test_the_share_is_of_the_time_in_own_kernels(kernels, share):
    assert custom_share(kernels, SOURCE) == share
