"""Bounds of a workload, and a dry run's estimates, against numbers worked out by hand."""

from typing import Any

import pytest

from warpsmith.state.device import DeviceSheet
from warpsmith.state.evaluation import CompileReport
from warpsmith.state.lowered import LoweredGraph, Node, Value
from warpsmith.tools.compile_pool import Compiled, Launch, LibraryCall
from warpsmith.tools.estimate import estimate
from warpsmith.tools.roofline import bounds, plain_product

# Round numbers, so that each bound can be read off.
DEVICE = DeviceSheet(
    name="round",
    arch="sm_90",
    sm_count=100,
    l2_bytes=1 << 20,
    shared_bytes_per_block=200 << 10,
    shared_bytes_per_sm=200 << 10,
    memory_bytes=1 << 36,
    peak_bytes_per_s=2e12,
    copy_bytes_per_s=1e12,
    peak_flops={"bf16": 600e12, "fp16": 600e12, "tf32": 300e12, "fp32": 50e12, "fp64": 40e12},
    matmul_flops={"bf16": 300e12, "fp16": 300e12, "tf32": 150e12, "fp32": 25e12, "fp64": 20e12},
)
N = 1 << 24


def given(name: str, *shape: int, dtype: str = "float32", op: str = "input") -> Node:
    return Node(name=name, op=op, output=Value(shape=shape, dtype=dtype), target=name)


def call(name: str, op: str, *refs: str, shape: tuple[int, ...], dtype: str = "float32") -> Node:
    arguments: tuple[Any, ...] = tuple({"ref": ref} for ref in refs)
    return Node(name=name, op=f"aten.{op}", args=arguments, output=Value(shape=shape, dtype=dtype))


def graph(*nodes: Node, output: str) -> LoweredGraph:
    return LoweredGraph(nodes=nodes, outputs={"ref": output})


def test_a_pointwise_workload_reads_at_peak_and_moves_all_at_the_copy_rate():
    found = bounds(graph(given("x", N), call("y", "relu.default", "x", shape=(N,)), output="y"), DEVICE)
    assert (found.read_bytes, found.write_bytes) == (4 * N, 4 * N)
    assert found.floor_ms == pytest.approx((8 * N - (1 << 20)) / 2e12 * 1e3)
    assert found.sol_ms == pytest.approx(8 * N / 1e12 * 1e3)


def test_writes_that_fit_in_l2_cost_the_void_bound_nothing():
    found = bounds(graph(given("x", N), call("y", "sum.default", "x", shape=()), output="y"), DEVICE)
    assert found.floor_ms == pytest.approx(4 * N / 2e12 * 1e3)


@pytest.mark.parametrize(
    ("dtype", "floor_rate", "sol_rate"),
    [("bfloat16", 600e12, 300e12), ("float16", 600e12, 300e12), ("float32", 200e12, 100e12), ("float64", 40e12, 20e12)],
)
def test_a_plain_product_is_bound_by_the_fastest_honest_rate_of_its_operands(dtype, floor_rate, sol_rate):
    m = n = k = 4096
    nodes = [given("a", m, k, dtype=dtype), given("b", k, n, dtype=dtype)]
    lowered = graph(*nodes, call("y", "mm.default", "a", "b", shape=(m, n), dtype=dtype), output="y")
    found = bounds(lowered, DEVICE)
    assert found.matmul_flops == {dtype: 2.0 * m * n * k}
    assert found.floor_ms == pytest.approx(2e3 * m * n * k / floor_rate)
    assert found.sol_ms == pytest.approx(2e3 * m * n * k / sol_rate)


def test_flops_that_algebra_could_remove_do_not_void():
    """A product that is summed away needs no product: (x @ w).sum() is x.sum(0) . w.sum(1)."""
    m = 4096
    product = [given("a", m, m), given("b", m, m), call("p", "mm.default", "a", "b", shape=(m, m))]
    summed = graph(*product, call("y", "sum.default", "p", shape=()), output="y")
    assert plain_product(graph(*product, output="p"))
    assert not plain_product(summed)
    assert bounds(summed, DEVICE).floor_ms == pytest.approx(2 * m * m * 4 / 2e12 * 1e3)
    chained = graph(*product, call("q", "mm.default", "p", "a", shape=(m, m)), output="q")
    assert not plain_product(chained)


def test_a_product_of_something_computed_is_not_plain():
    """diag(a) @ b is a row scale."""
    m = 512
    lowered = graph(
        given("a", m),
        given("b", m, m),
        call("d", "diag_embed.default", "a", shape=(m, m)),
        call("y", "mm.default", "d", "b", shape=(m, m)),
        output="y",
    )
    assert not plain_product(lowered)


def test_a_reference_that_cannot_be_lowered_has_no_bounds():
    found = bounds(LoweredGraph(nodes=(), outputs=None, unsupported="why"), DEVICE)
    assert (found.floor_ms, found.sol_ms) == (0, 0)


def compiled(*launches: Launch) -> Compiled:
    return Compiled(report=CompileReport(ok=True, seconds=0), launches=launches)


def launch(**changes: Any) -> Launch:
    base = {"kernel": "k", "blocks": 10_000, "num_warps": 8, "registers": 32, "tensor_bytes": 10**9}
    return Launch.model_validate(base | changes)


def ms(*launches: Launch) -> float:
    return estimate(compiled(*launches), {"sol_ms": 0.5}, DEVICE).ms


def test_an_estimate_is_bytes_at_the_copy_rate_plus_a_launch():
    found = estimate(compiled(launch()), {"sol_ms": 0.5}, DEVICE)
    assert found.ms == pytest.approx(1.003)
    assert found.sol_fraction == pytest.approx(0.5 / 1.003)
    assert "1 launch," in found.basis


def test_more_launches_spills_few_blocks_and_low_occupancy_cost():
    best = ms(launch())
    assert ms(launch(), launch()) == pytest.approx(2 * best)
    assert ms(launch(spill_bytes=64)) > best
    assert ms(launch(blocks=10)) > best
    assert ms(launch(registers=255, num_warps=4)) > best
    assert ms(launch(shared_bytes=150 << 10)) > best


def test_what_is_left_to_pytorch_is_not_free():
    call = LibraryCall(op="aten.mm", tensor_bytes=10**9)
    found = estimate(compiled(launch()).model_copy(update={"library": (call, call)}), {"sol_ms": 0.5}, DEVICE)
    assert found.ms == pytest.approx(3 * 1.003)
    assert "1 launch and 2 calls of PyTorch, " in found.basis


def test_an_estimate_never_beats_the_speed_of_light():
    found = estimate(compiled(launch(tensor_bytes=8)), {"sol_ms": 0.5}, DEVICE)
    assert (found.ms, found.sol_fraction) == (0.5, 1.0)


def test_what_could_not_be_traced_ranks_behind_everything_that_was():
    slow = estimate(compiled(*[launch(blocks=1, spill_bytes=64)] * 9), {"sol_ms": 0.001}, DEVICE)
    report = CompileReport(ok=True, seconds=0, warnings="not compiled ahead: FileNotFoundError")
    failed = compiled(launch(tensor_bytes=8)).model_copy(update={"report": report})
    for untraced, said in ((compiled(), "no launch"), (failed, "not every launch")):
        found = estimate(untraced, {"sol_ms": 0.5}, DEVICE)
        assert 0 < found.sol_fraction < slow.sol_fraction
        assert said in found.basis
