"""Plans as the controller gets them: a summary, ranked strategies with reasons, and the forward pass."""

import pytest
from programs.examples import EXAMPLES, layer_norm, linear_relu, softmax, sum_all

from warpsmith.state.device import DeviceSheet
from warpsmith.state.lowered import LoweredGraph, Node, Value
from warpsmith.state.problem import Problem, Workload
from warpsmith.state.program import ForwardPlan
from warpsmith.sub_agents.planner import OfflinePlanner, offline
from warpsmith.sub_agents.planner.expansion import Unplannable
from warpsmith.sub_agents.planner.layout import Refused
from warpsmith.sub_agents.planner.strategies import strategies, traffic_bytes

H200 = DeviceSheet(
    name="H200",
    arch="sm_90",
    sm_count=132,
    l2_bytes=50 * 2**20,
    shared_bytes_per_block=227 * 1024,
    shared_bytes_per_sm=228 * 1024,
    memory_bytes=141 * 10**9,
    peak_bytes_per_s=4.8e12,
    copy_bytes_per_s=4.3e12,
    peak_flops={"fp32": 67e12, "bf16": 990e12},
    matmul_flops={"fp32": 51e12, "bf16": 700e12},
)
PROBLEM = Problem(name="p", path="p.py", source="", workloads=(Workload(name="default"),))


def ideas(plan: ForwardPlan, operators: int = 1) -> dict[str, str]:
    return {s.name: s.why for s in strategies(plan, H200, operators)}


def call(name: str, op: str, *args: str, shape: tuple[int, ...] = (4, 8)) -> Node:
    refs = tuple({"ref": a} for a in args)
    return Node(name=name, op=op, args=refs, output=Value(shape=shape, dtype="float32"))


X = Node(name="x", op="input", output=Value(shape=(4, 8), dtype="float32"), target="x")


def test_every_plan_has_two_to_six_strategies_the_best_first() -> None:
    for name, plan in EXAMPLES.items():
        found = strategies(plan, H200, 3)
        assert 2 <= len(found) <= 6, name
        assert [s.expected_speedup for s in found] == sorted((s.expected_speedup for s in found), reverse=True)
        assert len({s.name for s in found}) == len(found)
        assert all(s.why for s in found)


def test_a_short_row_is_read_once() -> None:
    assert ideas(softmax(4096, 1024))["one pass over the row"].startswith("rows of 4096 bytes stay in registers")


def test_a_row_too_long_for_registers_is_reduced_online() -> None:
    found = ideas(softmax(4096, 393216))
    assert "online reduction" in found
    assert "one pass over the row" not in found


def test_few_long_rows_split_their_reduction() -> None:
    assert ideas(layer_norm(16, 65536))["split reduction"] == "split the reduction: only 16 rows for 132 SMs"
    assert "split reduction" in ideas(sum_all(1 << 24))
    assert "split reduction" not in ideas(layer_norm(4096, 8192))


def test_a_float32_product_is_split_into_tensor_core_products() -> None:
    assert {"tf32x3 for fp32 product", "bf16x6 for fp32 product", "fuse epilogue"} <= set(ideas(linear_relu(4096)))
    assert "tf32x3 for fp32 product" not in ideas(EXAMPLES["bmm_bf16"])


def test_few_tiles_with_a_long_sum_split_it() -> None:
    assert "split k" in ideas(linear_relu(128, 128, 8192))
    assert "split k" not in ideas(linear_relu(8192, 8192, 8192))
    assert "matvec" in ideas(linear_relu(1, 8192, 8192))


def test_traffic_counts_broadcast_operands_once() -> None:
    (step,) = linear_relu(4, 6, 8).steps
    assert traffic_bytes(step, EXAMPLES["linear_relu"]) == 4 * (4 * 8 + 8 * 6 + 6 + 4 * 6)  # type: ignore[arg-type]
    assert step.flops({}) == 2.0 * 4 * 6 * 8  # type: ignore[union-attr]


def test_the_summary_names_kernels_and_what_stays_in_pytorch() -> None:
    nodes = (
        X,
        call("a", "aten.relu.default", "x"),
        call("b", "aten.frobnicate.default", "a"),
        call("c", "aten.tanh.default", "b"),
    )
    plan = OfflinePlanner().plan(PROBLEM, LoweredGraph(nodes=nodes, outputs={"ref": "c"}), H200)
    assert plan.forward is not None
    assert plan.forward.uncovered == ("aten.frobnicate.default",)
    assert "3 operators as 2 kernels" in plan.summary
    assert "stays in PyTorch: aten.frobnicate.default" in plan.summary


def test_the_same_plan_with_the_same_operator_names_comes_from_any_problem() -> None:
    graph = LoweredGraph(nodes=(X, call("a", "aten.relu.default", "x")), outputs={"ref": "a"})
    other = PROBLEM.model_copy(update={"name": "softmax", "source": "# a layer norm"})
    assert OfflinePlanner().plan(PROBLEM, graph, H200) == OfflinePlanner().plan(other, graph, H200)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (LoweredGraph(nodes=(), outputs=None, unsupported="lowering took longer than 20 s"), "longer than 20 s"),
        (LoweredGraph(nodes=(X, call("y", "aten.sort.default", "x")), outputs={"ref": "y"}), "aten.sort.default"),
        (LoweredGraph(nodes=(X,), outputs={"ref": "x"}), "no operator"),
    ],
)
def test_without_programs_the_summary_says_why(graph: LoweredGraph, why: str) -> None:
    plan = OfflinePlanner().plan(PROBLEM, graph, H200)
    assert plan.forward is None
    assert why in plan.summary
    assert len(plan.strategies) == 2


@pytest.mark.parametrize("error", [Unplannable("no place for it"), Refused("too many dimensions")])
def test_a_plan_stands_without_the_one_in_parts(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(graph: LoweredGraph, forward: ForwardPlan) -> None:
        raise error

    monkeypatch.setattr(offline, "plan_apart", refuses)
    graph = LoweredGraph(nodes=(X, call("a", "aten.relu.default", "x")), outputs={"ref": "a"})
    plan = OfflinePlanner().plan(PROBLEM, graph, H200)
    assert (plan.forward is not None, plan.apart) == (True, None)
