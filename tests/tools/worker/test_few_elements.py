"""Outputs of few elements: an error on one draw is luck, and a verdict must not be."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from expectations.holding import FP32, Function, drawn
from torch import Tensor

from warpsmith.state.problem import Workload
from warpsmith.tools.worker.expectation import Expectation, Finding, check_leaf
from warpsmith.tools.worker.known_expectations import ALIKE, KnownExpectations
from warpsmith.tools.worker.trial import Trial

Forward = Callable[[Tensor], Any]
PRIMARY = Workload(name="default", arguments={}, input_bytes=0, output_bytes=0)
PARTS = 4096
"""Blocks of a kernel that adds up by atomics, of 4096 elements each."""
SEEDS = range(60)


class Judged:
    """What trials ask of a judge: draws and expectations. An input holds the blocks' sums, as they are added up."""

    def __init__(self, reference: Forward, seed: int) -> None:
        self.seed = seed
        self.device = torch.device("cpu")
        self.models = dict.fromkeys(("timed", "random"), Function(reference))
        self.unit_in = FP32
        self.known = KnownExpectations(self)  # type: ignore[arg-type]

    def inputs(self, _workload: Workload, kind: str, number: int) -> list[Any]:
        sums = 64 * drawn(1000 * self.seed + number, PARTS)
        if kind == "spike":
            sums[0] += 1000.0
        return [sums]

    def expectation(self, workload: Workload, kind: str, number: int, weights: str) -> Expectation:
        return self.known.of(workload, kind, number, weights)


class Held(Trial):
    """A trial whose candidate is a function of this process."""

    def __init__(self, judge: Judged, candidate: Forward) -> None:
        super().__init__(judge, SimpleNamespace(), {"path": ""})  # type: ignore[arg-type]
        self.forward, self.compared = candidate, 0

    def _compare(self, workload: Workload, kind: str, number: int, layout: Any) -> list[Finding]:
        self.compared += 1
        delivered = self.forward(*self.judge.inputs(workload, kind, number))
        leaves = self._expected(workload, kind, number).leaves
        outputs = delivered if isinstance(delivered, tuple) else (delivered,)
        return [check_leaf(got, leaf) for got, leaf in zip(outputs, leaves, strict=True)]


def one_by_one(x: Tensor) -> Tensor:
    """In float32 throughout; PyTorch's own `cumsum` adds up in float64 on a CPU."""
    return torch.tensor(numpy.add.accumulate(x.numpy())[-1])


@pytest.mark.parametrize("kind", ["spike", "normal"])
def test_a_sum_by_atomics_passes_on_every_seed(kind: str) -> None:
    unlucky, refused = 0, []
    for seed in SEEDS:
        trial = Held(Judged(torch.sum, seed), one_by_one)
        (first,) = trial._compare(PRIMARY, kind, 0, "plain")
        unlucky += first.error > first.bound
        if not trial.check(PRIMARY, kind).passed:
            refused.append(seed)
    assert unlucky > 0  # Else this would show nothing.
    assert refused == []


@pytest.mark.parametrize("kind", ["spike", "normal"])
def test_a_sum_that_leaves_a_block_out_is_refused_at_once(kind: str) -> None:
    for seed in SEEDS:
        trial = Held(Judged(torch.sum, seed), lambda x: one_by_one(x[:-1]))
        assert not trial.check(PRIMARY, kind).passed
        assert trial.compared <= ALIKE


def test_an_error_little_beyond_the_bound_is_refused_after_more_draws() -> None:
    judge = Judged(torch.sum, 1)
    (leaf,) = judge.expectation(PRIMARY, "spike", 0, "random").leaves
    trial = Held(judge, lambda x: x.double().sum().add(1.6 * leaf.typical_rms).float())
    assert not trial.check(PRIMARY, "spike").passed
    assert trial.compared == 64


def test_a_scalar_beside_a_large_output_may_be_unlucky_too() -> None:
    unlucky = 0
    for seed in SEEDS:
        trial = Held(Judged(lambda x: (x.repeat(3), x.sum()), seed), lambda x: (x.repeat(3), one_by_one(x)))
        assert trial.check(PRIMARY, "normal").passed
        unlucky += trial.compared > 1
        wrong = Held(Judged(lambda x: (x.repeat(3), x.sum()), seed), lambda x: (x.repeat(3).mul(1.001), x.sum()))
        assert not wrong.check(PRIMARY, "normal").passed
        assert wrong.compared == 1
    assert unlucky > 0


def test_expectations_of_few_elements_are_made_once() -> None:
    judge = Judged(torch.sum, 0)
    first = judge.expectation(PRIMARY, "spike", 0, "random")
    assert len(judge.known._known) == ALIKE
    assert judge.expectation(PRIMARY, "spike", 0, "random") is first
    bounds = [judge.expectation(PRIMARY, "spike", n, "random").leaves[0].bound_rms for n in range(ALIKE)]
    typical = (sum(bound * bound for bound in bounds) / ALIKE) ** 0.5
    more = judge.expectation(PRIMARY, "spike", 40, "random")
    assert [first.leaves[0].typical_rms, more.leaves[0].typical_rms] == pytest.approx([typical, typical])
