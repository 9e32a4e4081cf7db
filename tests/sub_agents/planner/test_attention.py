"""Which products become attention, and what a plan says of it."""

import functools
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from programs.attention import ATTENTION, heads, later, scores
from programs.references import CASES, Function
from programs.sheets import H200

from warpsmith.state.lowered import LoweredGraph
from warpsmith.state.plan import Plan
from warpsmith.state.problem import Problem, Workload
from warpsmith.state.program import ForwardPlan, MatmulProgram, Softmax, TorchStep
from warpsmith.sub_agents.planner import OfflinePlanner, forward_plan
from warpsmith.sub_agents.planner.batches import refined, split
from warpsmith.sub_agents.planner.strategies import matmul_flops, traffic_bytes
from warpsmith.tools.worker.lowering import lower


@functools.cache
def lowered(name: str) -> LoweredGraph:
    return lower(*CASES[name]())


def plan_of(function: Any, *inputs: torch.Tensor) -> ForwardPlan:
    return forward_plan(lower(Function(function), list(inputs)))


def attended(plan: ForwardPlan) -> list[Softmax]:
    factors = [step.a.softmax for step in plan.steps if isinstance(step, MatmulProgram)]
    return [each for each in factors if each is not None]


@pytest.mark.parametrize("name", ATTENTION)
def test_neither_scores_nor_weights_are_written(name: str) -> None:
    plan = forward_plan(lowered(name))
    assert len(attended(plan)) == 1
    (step,) = (each for each in plan.steps if isinstance(each, MatmulProgram) and each.scores is not None)
    written = {store.value for each in plan.steps if hasattr(each, "stores") for store in each.stores}
    assert not written & {name for name in plan.values if "softmax" in name}
    assert set(step.reads) <= set(plan.values)


@pytest.mark.parametrize(
    ("name", "ahead", "zero_rows"),
    [
        ("attended", None, False),
        ("attended_causal", 0, False),
        ("attended_emptied", None, False),
        ("attention_call_causal", 0, False),
        ("attention_call_masked", None, True),
        ("attention_block", None, False),
    ],
)
def test_what_is_known_of_the_scores(name: str, ahead: int | None, zero_rows: bool) -> None:
    (softmax,) = attended(forward_plan(lowered(name)))
    assert (softmax.ahead, softmax.zero_rows) == (ahead, zero_rows)


@pytest.mark.parametrize(("diagonal", "ahead"), [(1, 0), (4, 3), (-2, -3)])
def test_how_far_ahead_scores_go_is_read_off_a_comparison(diagonal: int, ahead: int) -> None:
    def masked(self: Any, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(40, 40, dtype=torch.bool).triu(diagonal)
        return scores(q, q).masked_fill(mask, -math.inf).softmax(-1) @ v

    def kept(self: Any, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(40)[:, None]
        return torch.where(torch.arange(40) < rows + diagonal, scores(q, q), -math.inf).softmax(-1) @ v

    for function in (masked, kept):
        (softmax,) = attended(plan_of(function, heads(40), heads(40)))
        assert softmax.ahead == ahead


def test_a_mask_from_below_says_nothing_of_what_lies_ahead() -> None:
    def earlier(self: Any, q: torch.Tensor) -> torch.Tensor:
        return scores(q, q).masked_fill(torch.ones(40, 40, dtype=torch.bool).tril(-1), -math.inf).softmax(-1) @ q

    def other_value(self: Any, q: torch.Tensor) -> torch.Tensor:
        return scores(q, q).masked_fill(later(q), -1e9).softmax(-1) @ q

    for function in (earlier, other_value):
        (softmax,) = attended(plan_of(function, heads(40)))
        assert softmax.ahead is None


@pytest.mark.parametrize(
    "function",
    [
        lambda self, q, v: (scores(q, q).softmax(-1) @ v, scores(q, q).softmax(-1).mean(1)),
        lambda self, q, v: (scores(q, q), scores(q, q).softmax(-1) @ v),
        lambda self, q, v: scores(q, q).softmax(-2) @ v,
        lambda self, q, v: scores(q, q).softmax(-1).mT @ v,
        lambda self, q, v: v.mT @ scores(q, q).softmax(-1),
        lambda self, q, v: scores(q, q).log_softmax(-1) @ v,
        lambda self, q, v: (scores(q, q).softmax(-1) * 2) @ v,
        lambda self, q, v: scores(q, q).sigmoid() @ v,
    ],
)
def test_what_is_no_attention_stays_in_parts(function: Any) -> None:
    plan = plan_of(function, heads(20), heads(20))
    assert not attended(plan)
    assert not plan.uncovered


def planned(name: str) -> Plan:
    problem = Problem(name="p", path="p.py", source="", workloads=(Workload(name="default"),))
    return OfflinePlanner().plan(problem, lowered(name), H200)


def test_parts_are_another_way_and_a_call_is_pytorchs_there() -> None:
    own, called = planned("attended").apart, planned("attention_call").apart
    assert own is not None
    assert [step.kind for step in own.steps] == ["matmul", "loop", "matmul"]
    assert not attended(own)
    assert called is None  # Nothing but the call: no kernel is left.
    block = planned("attention_block").apart
    assert block is not None
    assert len([step for step in block.steps if not isinstance(step, TorchStep)]) == 5


def test_a_call_among_kernels_of_ones_own() -> None:
    def function(self: Any, q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q).relu() + 1

    graph = lower(Function(function), [heads(20)])
    problem = Problem(name="p", path="p.py", source="", workloads=(Workload(name="default"),))
    apart = OfflinePlanner().plan(problem, graph, H200).apart
    assert apart is not None
    assert apart.uncovered == ("aten.scaled_dot_product_attention.default",)
    assert [step.kind for step in apart.steps] == ["torch", "loop"]


def test_flops_are_of_both_products_and_bytes_of_what_lies_in_memory() -> None:
    plan = forward_plan(lowered("attended"))
    (step,) = plan.steps
    assert isinstance(step, MatmulProgram)
    assert matmul_flops(step, plan) == 2 * 6 * 37 * 50 * (16 + 24)
    assert traffic_bytes(step, plan) == 4 * 6 * (37 * 16 + 50 * 16 + 50 * 24 + 37 * 24)


def test_batches_are_cut_where_one_refines_the_other() -> None:
    assert refined(("s0*s1",), ("s0", "s1")) == ("s0", "s1")
    assert refined((4, 6), (2, 2, 6)) == (2, 2, 6)
    assert refined((4, 6), (6, 4)) is None
    assert refined((), ()) == ()
    (step,) = forward_plan(lowered("attended")).steps
    assert isinstance(step, MatmulProgram)
    (merged,) = step.batch
    again = split(step, ("s0", 3))
    assert merged == "3*s0" or merged == "s0*s1"
    assert again.b.strides[:2] == ("72*s3", "24*s3") or again.batch == ("s0", 3)
