"""Which products become attention, and what a plan says of it."""

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from programs.attention import ATTENTION, heads, scores
from programs.references import CASES, Function
from programs.sheets import H200

from warpsmith.state.lowered import LoweredGraph
from warpsmith.state.plan import Plan
from warpsmith.state.problem import Problem, Workload
from warpsmith.state.program import ForwardPlan, MatmulProgram, Softmax, TorchStep
from warpsmith.sub_agents.planner import OfflinePlanner, forward_plan
from warpsmith.sub_agents.planner.batches import refined, split
from warpsmith.sub_agents.planner.strategies import traffic_bytes
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
    assert not any(statement.op == "exp" for each in plan.steps for statement in getattr(each, "body", ()))
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


def places() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(40)[:, None], torch.arange(40)[None, :]


def ones(**kind: Any) -> torch.Tensor:
    return torch.ones(40, 40, **kind)


MASKED: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], int]] = {
    "after": (lambda s: s.masked_fill(ones(dtype=torch.bool).triu(1), -math.inf), 0),
    "further": (lambda s: s.masked_fill(ones(dtype=torch.bool).triu(4), -math.inf), 3),
    "before": (lambda s: s.masked_fill(ones(dtype=torch.bool).triu(-2), -math.inf), -3),
    "compared": (lambda s: torch.where(places()[1] < places()[0] + 2, s, -math.inf), 1),
    "negated": (lambda s: s.masked_fill(~ones(dtype=torch.bool).tril(), -math.inf), 0),
    "ones_kept": (lambda s: s.masked_fill(ones().tril() == 0, -math.inf), 0),
    "ones_cast": (lambda s: s.masked_fill(ones().triu(1).bool(), -math.inf), 0),
    "not_kept": (lambda s: s.masked_fill(torch.logical_not(places()[1] <= places()[0]), -math.inf), 0),
    "narrow": (lambda s: s.masked_fill(places()[1].int() > places()[0].int(), -math.inf), 0),
    "added": (lambda s: s + torch.full((40, 40), -math.inf).triu(1), 0),
    "window": (lambda s: torch.where((places()[1] <= places()[0]) & (places()[0] - places()[1] < 9), s, -math.inf), 0),
    "either": (lambda s: s.masked_fill((places()[1] > places()[0] + 5) | (places()[1] < 3), -math.inf), 5),
    "kept_either": (
        lambda s: torch.where((places()[1] <= places()[0]) | (places()[1] < places()[0] + 7), s, -math.inf),
        6,
    ),
    "twice": (
        lambda s: s.masked_fill(places()[1] > places()[0], -math.inf).masked_fill(places()[1] == 3, -math.inf),
        0,
    ),
    "scaled": (lambda s: s.masked_fill(places()[1] > places()[0], -math.inf) * 0.5, 0),
}


@pytest.mark.parametrize("name", MASKED)
def test_how_far_ahead_scores_go_is_read_off_their_masks(name: str) -> None:
    masked, ahead = MASKED[name]
    (softmax,) = attended(plan_of(lambda self, q, v: masked(scores(q, q)).softmax(-1) @ v, heads(40), heads(40)))
    assert softmax.ahead == ahead


@pytest.mark.parametrize(
    ("name", "ahead", "behind"),
    [("attended_in_a_window", 0, 8), ("attended_long_ago", -30, 59), ("attended", None, None)],
)
def test_a_window_that_slides_ends_on_both_sides(name: str, ahead: int | None, behind: int | None) -> None:
    (softmax,) = attended(forward_plan(lowered(name)))
    assert (softmax.ahead, softmax.behind) == (ahead, behind)


@pytest.mark.parametrize(
    "masked",
    [
        lambda s: s.masked_fill(ones(dtype=torch.bool).tril(-1), -math.inf),
        lambda s: s.masked_fill(places()[1] > places()[0], -1e9),
        lambda s: s.masked_fill((places()[1] > places()[0]) & (places()[1] < 30), -math.inf),
        lambda s: torch.where((places()[1] <= places()[0]) | (places()[1] < 3), s, -math.inf),
        lambda s: s.masked_fill(places()[1] > places()[0], -math.inf) * -0.5,
        lambda s: s.masked_fill(places()[1] > 2 * places()[0], -math.inf),
        lambda s: s.masked_fill((places()[1] > places()[0]) == (places()[1] > 4), -math.inf),
        lambda s: torch.where(places()[1] > places()[0], s, -math.inf),
    ],
)
def test_other_masks_say_nothing_of_what_lies_ahead(masked: Any) -> None:
    for softmax in attended(plan_of(lambda self, q: masked(scores(q, q)).softmax(-1) @ q, heads(40))):
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
        lambda self, q, v: (lambda w: w @ w)(scores(q, q).softmax(-1)),
        lambda self, q, v: (lambda w: (w @ v[..., :1].expand(2, 3, 20, 20)) * w)(scores(q, q).softmax(-1)),
        lambda self, q, v: scores(q, q).softmax(-1) @ v.repeat(1, 1, 1, 20),
        lambda self, q, v: scores(q.double(), q.double()).softmax(-1) @ v.double(),
        lambda self, q, v: scores(q.half(), q.half()).softmax(-1, dtype=torch.float32) @ v,
        lambda self, q, v: scores(q, q).softmax(-1, dtype=torch.float64).float() @ v,
        lambda self, q, v: scores(q, q).double().softmax(-1).float() @ v,
        lambda self, q, v: (scores(q, q) + v.double()[..., :1]).softmax(-1).float() @ v,
    ],
)
def test_what_is_no_attention_stays_in_parts(function: Any) -> None:
    plan = plan_of(function, heads(20), heads(20))
    assert not attended(plan)
    assert not plan.uncovered


@pytest.mark.parametrize(
    "softmax",
    [
        lambda s: s.softmax(-1, dtype=torch.float32).to(s.dtype),
        lambda s: s.float().softmax(-1).type_as(s),
        lambda s: (s.float() * 2).softmax(-1).half(),
    ],
)
def test_a_softmax_in_a_wider_type_is_one_too(softmax: Any) -> None:
    plan = plan_of(lambda self, q, v: softmax(scores(q, q)) @ v, heads(20).half(), heads(20).half())
    assert len(attended(plan)) == 1


def test_the_number_of_a_head_may_be_part_of_its_scores() -> None:
    def function(self: Any, q: torch.Tensor) -> torch.Tensor:
        slopes = torch.arange(1, 4)[:, None, None] * 0.25
        return (scores(q, q) - slopes * (places()[0] - places()[1])).softmax(-1) @ q

    graph = lower(Function(function), [heads(40)], dynamic={})
    assert len(attended(forward_plan(graph))) == 1


def test_only_calls_that_are_no_one_kernel_stay_with_pytorch() -> None:
    def function(self: Any, q: torch.Tensor, wide: torch.Tensor) -> Any:
        attention = F.scaled_dot_product_attention
        return attention(q, q, q), attention(wide, wide, wide), scores(q, q + 1).softmax(-1) @ q

    plan = plan_of(function, heads(20), heads(20, 300))
    assert len(attended(plan)) == 2
    assert [step.kind for step in plan.steps].count("torch") == 1


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
    assert step.flops(plan.hints) == 2 * 6 * 37 * 50 * (16 + 24)
    assert traffic_bytes(step, plan) == 4 * 6 * (37 * 16 + 50 * 16 + 50 * 24 + 37 * 24)


def test_batches_are_cut_where_one_refines_the_other() -> None:
    assert refined(("s0*s1",), ("s0", "s1")) == ("s0", "s1")
    assert refined((4, 6), (2, 2, 6)) == (2, 2, 6)
    assert refined((4, 6), (6, 4)) is None
    assert refined((), ()) == ()
    (step,) = forward_plan(lowered("attended")).steps
    assert isinstance(step, MatmulProgram)
    assert (step.batch, step.b.strides[0]) == (("s0*s1",), "s3*s4")
    again = split(step, ("s0", "s1"))
    assert (again.batch, again.b.strides) == (("s0", "s1"), ("s1*s3*s4", "s3*s4", "s4", 1))
    assert again.stores[0].strides == ("s1*s2*s4", "s2*s4", "s4", 1)
