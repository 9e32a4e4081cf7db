"""The CUDA kernels with a known bottleneck give right numbers: run on the CPU, at sizes that they take."""

import ast
from typing import Any

import numpy
import pytest
from cuda_emulation.emulation import emulate

from warpsmith.evals.diagnosis_set import collect

KERNELS = {kernel.name: kernel for kernel in collect()}
BFLOAT16 = """
struct __nv_bfloat16 { unsigned short bits; };
inline float __bfloat162float(__nv_bfloat16 x) {
    unsigned bits = unsigned(x.bits) << 16;
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
}
inline __nv_bfloat16 __float2bfloat16(float x) {
    unsigned bits;
    __builtin_memcpy(&bits, &x, 4);
    return {(unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
#define __align__(bytes) __attribute__((aligned(bytes)))
"""
RNG = numpy.random.default_rng(0)


def source_of(name: str) -> str:
    """The CUDA text in a kernel's file."""
    for node in ast.parse(KERNELS[name].source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "SOURCE":
            return str(ast.literal_eval(node.value)).replace("#include <cuda_bf16.h>\n", BFLOAT16)
    raise AssertionError(f"{name}: no SOURCE")


def run(name: str, kernel: str, shape: tuple[Any, Any], args: tuple[Any, ...], **options: Any) -> None:
    emulate(source_of(name), kernel, shape[0], shape[1], args, **options)


def draw(*shape: int) -> numpy.ndarray:
    return RNG.standard_normal(shape).astype(numpy.float32)


@pytest.mark.parametrize(
    ("name", "grid", "threads", "width"),
    [("compute_full_grid", 3, 256, 4), ("tail_one_block_more", 5, 64, 1), ("partial_wave_few_blocks", 3, 128, 1)],
)
def test_chains(name: str, grid: int, threads: int, width: int) -> None:
    x, y = draw(3000), numpy.zeros(3000, numpy.float32)
    length = numpy.int32(3000 // width)
    run(name, "chain", ((grid,), (threads,)), (x, y, numpy.float32(0.99), numpy.float32(0.01), length))
    wanted = x.astype(numpy.float64)
    for _ in range(128):
        wanted = wanted * 0.99 + 0.01
    assert numpy.allclose(y, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "grid", "block"), [("uncoalesced_stores", (3, 8), (32, 8)), ("bank_conflicts", (3, 2), (32, 8))]
)
def test_transposes(name: str, grid: tuple[int, int], block: tuple[int, int]) -> None:
    x, y = draw(64, 96), numpy.zeros((96, 64), numpy.float32)
    run(name, "turn", (grid, block), (x, y, numpy.int32(64), numpy.int32(96)))
    assert numpy.array_equal(y, x.T)


def test_relu_of_far_elements() -> None:
    x, y = draw(4096), numpy.zeros(4096, numpy.float32)
    run("uncoalesced_loads", "relu", ((16,), (256,)), (x, y, numpy.int32(64), numpy.int32(64)))
    assert numpy.array_equal(y, numpy.maximum(x, 0))


def test_relu_through_shared_memory() -> None:
    x, y = draw(4096), numpy.zeros(4096, numpy.float32)
    shape = ((4,), (128,))
    run("occupancy_shared_memory", "relu", shape, (x, y, numpy.int32(1024)), shared_bytes=4096)
    assert numpy.array_equal(y, numpy.maximum(x, 0))


def test_column_softmax() -> None:
    x, y = draw(128, 300), numpy.zeros((128, 300), numpy.float32)
    run("spills", "softmax", ((3,), (128,)), (x, y, numpy.int32(300)))
    powers = numpy.exp(x.astype(numpy.float64) - x.max(axis=0))
    assert numpy.allclose(y, powers / powers.sum(axis=0), rtol=1e-5)


def test_running_sums() -> None:
    x, y = draw(50, 200), numpy.zeros((50, 200), numpy.float32)
    run("latency_column_walk", "walk", ((2,), (128,)), (x, y, numpy.int32(50), numpy.int32(200)))
    assert numpy.allclose(y, numpy.cumsum(x.astype(numpy.float64), axis=0), rtol=1e-4, atol=1e-5)


def bfloat16(values: numpy.ndarray) -> numpy.ndarray:
    """The bits of values that bfloat16 holds exactly."""
    return (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)


def widened(bits: numpy.ndarray) -> numpy.ndarray:
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)


def test_doubling() -> None:
    x, y = bfloat16(draw(1000)), numpy.zeros(1000, numpy.uint16)
    run("scalar_loads_bf16", "doubled", ((2,), (64,)), (x, y, numpy.int32(1000)))
    assert numpy.array_equal(widened(y), 2 * widened(x))


def test_product_of_single_numbers() -> None:
    a, b = (bfloat16(RNG.integers(-3, 4, (128, 128))) for _ in range(2))
    c = numpy.zeros((128, 128), numpy.uint16)
    run("tensor_cores_unused", "product", ((2, 2), (256,)), (a, b, c, numpy.int32(128)))
    exact = widened(a).astype(numpy.float64) @ widened(b).astype(numpy.float64)
    assert numpy.allclose(widened(c), exact, rtol=2**-7, atol=0.01)
    assert numpy.abs(exact).max() > 50
