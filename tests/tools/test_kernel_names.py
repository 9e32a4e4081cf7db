"""Whose kernels ran: names from a candidate's source, libraries by their names, and the share of the GPU time."""

import pytest

from warpsmith.tools.kernel_names import (
    base_name,
    compiled_names,
    credited_kind,
    credited_names,
    custom_share,
    kind_of,
    own_kernel_names,
)

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
    assert custom_share(kernels, own_kernel_names(SOURCE)) == share


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("fused", "own"),
        ("void four<3>(float*)", "own"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::FillFunctor<float>, std::array<char *, 1>>(int)",
            "pytorch",
        ),
        ("void pytorch_flash::flash_fwd_kernel<Traits>(Params)", "pytorch"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, false, false>(float*)", "pytorch"),
        ("void <unnamed>::softmax_warp_forward<float, float, float, 9, false, false>(float*)", "pytorch"),
        ("void (anonymous namespace)::fused<4>(float*)", "own"),
        ("void (anonymous namespace)::made_up_at_run_time<4>(float*)", "other"),
        ("triton_poi_fused_relu_0", "inductor"),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", "cublas"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8", "cublas"),
        ("ampere_sgemm_128x64_tn", "cublas"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float>(Params)", "cublas"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_nhwckrsc_nhwc", "cudnn"),
        ("void cudnn::ops::nchwToNhwcKernel<float>(Params)", "cudnn"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(Params)", "cutlass"),
        ("void cub::DeviceReduceKernel<Policy>(float*)", "cub"),
        ("Memcpy DtoD (Device -> Device)", "copy"),
        ("made_up_at_run_time", "other"),
    ],
)
def test_a_kernel_is_told_by_its_name(kernel, kind):
    assert kind_of(kernel, own_kernel_names(SOURCE)) == kind


def test_a_name_put_together_at_run_time_is_own_where_the_compile_met_it():
    """Also one that looks like a library's, where hazards would be set aside: no library is compiled there."""
    met = ["made_up_at_run_time", "triton_poi_fused_relu_0", "gemv_made_at_run_time", "one(float*)"]
    assert compiled_names(met, {"one"}) == {"made_up_at_run_time", "gemv_made_at_run_time", "one"}


def test_a_base_name_has_no_template_and_no_parameters():
    assert base_name("void ns::kernel<int, 3>(float *, int)") == "kernel"
    assert base_name("void ns::<unnamed>::kernel<int, 3>(float *, int)") == "kernel"
    assert base_name("(anonymous namespace)::kernel(float *)") == "kernel"
    assert base_name("") == ""


CLAIMING = """
# __global__ void vectorized_elementwise_kernel(
# __global__ void ampere_sgemm_128x64_tn(
import triton
@triton.jit
def mine(x): pass
"""


@pytest.mark.parametrize(
    "kernel",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::FillFunctor<float>>(int)",
        "ampere_sgemm_128x64_tn",
        "void cutlass::mine<float>(Params)",
    ],
)
def test_a_comment_claims_no_librarys_time(kernel):
    credited = credited_names(CLAIMING, ())
    assert credited_kind(kernel, credited) != "own"
    assert custom_share({kernel: 1.0, "mine": 1.0}, credited) == 0.5


def test_what_it_names_like_a_librarys_counts_once_it_was_compiled_and_is_accused_in_any_case():
    assert "ampere_sgemm_128x64_tn" in own_kernel_names(CLAIMING)
    assert credited_names(CLAIMING, ["ampere_sgemm_128x64_tn"]) == {"mine", "ampere_sgemm_128x64_tn"}


def test_types_of_a_library_in_a_kernels_arguments_make_it_no_librarys():
    assert credited_kind("void mine<at::Half, 4>(at::Half*)", {"mine"}) == "own"
    assert credited_kind("void (anonymous namespace)::mine<at::Half>(at::Half*)", {"mine"}) == "own"
