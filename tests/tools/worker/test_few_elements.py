"""Outputs of few elements: an error on one draw is luck, and a verdict must not be."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy
import pytest
import torch
from expectations.holding import FP32, Function, drawn
from torch import Tensor

from warpsmith.state.problem import Workload
from warpsmith.tools.worker import draws, known_expectations, structure
from warpsmith.tools.worker.expectation import Expectation, Finding, check_all, clone_nested
from warpsmith.tools.worker.known_expectations import ALIKE, KnownExpectations
from warpsmith.tools.worker.session import CandidateFailed
from warpsmith.tools.worker.trial import Trial
from warpsmith.tools.worker.verifier import Verifier

Forward = Callable[[Tensor], Any]
PRIMARY = Workload(name="default", arguments={}, input_bytes=0, output_bytes=0)
PARTS = 4096
"""Blocks of a kernel that adds up by atomics, of 4096 elements each."""
SEEDS = range(60)


def seed_of(*what: Any) -> int:
    return crc32(repr(what).encode())


def sums_of_blocks(seed: int, kind: str, number: int) -> Tensor:
    """An input holds the blocks' sums, as they are added up."""
    sums = 64 * drawn(seed_of(seed, kind, number), PARTS)
    if kind == "spike":
        sums[0] += 1000.0
    return sums


class Judged:
    """What trials ask of a judge: draws and expectations."""

    def __init__(self, reference: Forward, seed: int, draw: Callable[[int, str, int], Tensor] = sums_of_blocks) -> None:
        self.seed, self.draw = seed, draw
        self.device = torch.device("cpu")
        self.models = dict.fromkeys(("timed", "random"), Function(reference))
        self.unit_in = FP32
        self.known = KnownExpectations(self)  # type: ignore[arg-type]

    def inputs(self, _workload: Workload, kind: str, number: int) -> list[Any]:
        return [self.draw(self.seed, kind, number)]

    def workload(self, _name: str) -> Workload:
        return PRIMARY

    def expectation(self, workload: Workload, kind: str, number: int, weights: str) -> Expectation:
        return self.known.of(workload, kind, number, weights)

    def expected_of(self, weights: str, inputs: list[Any]) -> Expectation:
        return self.known.on(weights, inputs)

    def expect_typical(self, expected: Expectation, workload: Workload, kind: str, weights: str) -> None:
        expected.expect_typical(self.known.typical(expected, workload, kind, weights))


def delivered(forward: Forward, inputs: list[Any], expected: Expectation) -> list[Tensor]:
    """A call's outputs, and the inputs that the reference changes."""
    used = clone_nested(inputs)
    _, outputs = structure.flatten(forward(*used))
    return outputs + [used[place] for place in expected.mutated]


class Held(Trial):
    """A trial whose candidate is a function of this process."""

    def __init__(self, judge: Judged, candidate: Forward) -> None:
        super().__init__(judge, SimpleNamespace(), {"path": ""})  # type: ignore[arg-type]
        self.forward, self.compared = candidate, 0

    def _compare(self, workload: Workload, kind: str, number: int, layout: Any) -> list[Finding]:
        self.compared += 1
        expected = self._expected(workload, kind, number)
        instance = "timed" if kind == "problem" else "random"
        outputs = delivered(self.forward, self.judge.inputs(workload, kind, number), expected)
        return check_all(outputs, expected, lambda: self.judge.expect_typical(expected, workload, kind, instance))


def timed(judge: Judged, candidate: Forward, calls: int = 50) -> None:
    """Raises CandidateFailed where an output of so many timed calls is wrong."""
    verifier = Verifier(judge, "default", judge.expectation(PRIMARY, "problem", 0, "timed"), (10, calls - 10))  # type: ignore[arg-type]
    for number in range(calls):
        inputs = judge.inputs(PRIMARY, "timed", number)
        outputs, own = (delivered(f, inputs, verifier.expected) for f in (candidate, judge.models["timed"]))
        verifier.verify(number, inputs, outputs, own)


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
    typical = judge.known.typical(judge.expectation(PRIMARY, "spike", 0, "random"), PRIMARY, "spike", "random")
    trial = Held(judge, lambda x: x.double().sum().add(1.6 * typical[0]).float())
    assert not trial.check(PRIMARY, "spike").passed
    assert trial.compared == 64


def beside(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.repeat(3), x.sum()


def test_a_scalar_beside_a_large_output_may_be_unlucky_too() -> None:
    unlucky = 0
    for seed in SEEDS:
        trial = Held(Judged(beside, seed), lambda x: (x.repeat(3), one_by_one(x)))
        assert trial.check(PRIMARY, "normal").passed
        unlucky += trial.compared > 1
        wrong = Held(Judged(beside, seed), lambda x: (x.repeat(3).mul(1.001), x.sum()))
        assert not wrong.check(PRIMARY, "normal").passed
        assert wrong.compared == 1
    assert unlucky > 0


def test_each_draw_of_a_large_output_is_paid_for_so_they_are_fewer() -> None:
    trial = Held(Judged(beside, 1), lambda x: (x.repeat(3), x.sum() * (1 + 40 * 2.0**-24)))
    trial.check(PRIMARY, "normal")
    assert trial.compared <= 16


@pytest.mark.parametrize("reference", [torch.sum, beside])
def test_timed_calls_of_a_sum_by_atomics_pass_on_every_seed(reference: Forward) -> None:
    def candidate(x: Tensor) -> Any:
        return (x.repeat(3), one_by_one(x)) if reference is beside else one_by_one(x)

    for seed in range(25):
        timed(Judged(reference, seed), candidate)


def heavy_tailed(seed: int, kind: str, number: int) -> Tensor:
    values = drawn(seed_of(seed, kind, number), 64)
    return values if kind in ("problem", "timed", "normal") else values.abs() + 0.1


def test_one_draw_of_large_values_excuses_nothing_on_the_others() -> None:
    """Products of 64 numbers differ by tens of powers of ten: beside the largest, all others are nothing."""
    for seed in range(20):
        judge = Judged(torch.prod, seed, heavy_tailed)
        trial = Held(judge, lambda x: x.prod() if abs(float(x.double().prod())) >= 1e-20 else torch.zeros(()))
        checks = [trial.check(PRIMARY, kind).passed for kind in ("problem", "normal")]
        if all(checks):  # No draw was that small.
            with pytest.raises(CandidateFailed):
                timed(judge, trial.forward, calls=400)


def test_an_input_that_only_some_draws_change_is_compared_on_all() -> None:
    def draw(seed: int, kind: str, number: int) -> Tensor:
        values = drawn(seed_of(seed, kind, number), 8)
        return 100 * values if kind == "large" else values

    def clipped(x: Tensor) -> Tensor:
        return x.clamp_(-150, 150).sum()

    judge = Judged(clipped, 0, draw)
    for kind in draws.KINDS:
        assert Held(judge, clipped).check(PRIMARY, kind).passed
        assert judge.expectation(PRIMARY, kind, 0, "random").mutated == [0]
    timed(judge, clipped)


def test_what_is_typical_is_known_without_holding_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is short, eight draws at once are what does not fit."""
    monkeypatch.setattr(known_expectations, "_KEPT_ON_CPU_BYTES", 0)
    judge = Judged(torch.sum, 0)
    like = judge.expectation(PRIMARY, "spike", 0, "random")
    (typical,) = judge.known.typical(like, PRIMARY, "spike", "random")
    assert not judge.known._known
    bounds = [judge.expectation(PRIMARY, "spike", n, "random").leaves[0].bound_rms for n in range(ALIKE)]
    assert typical == pytest.approx((sum(bound * bound for bound in bounds) / ALIKE) ** 0.5)


def test_later_draws_do_not_crowd_out_those_that_every_candidate_needs() -> None:
    judge = Judged(torch.sum, 0)
    for number in range(64):
        judge.expectation(PRIMARY, "spike", number, "random")
    assert len(judge.known._known) == ALIKE


def test_what_an_index_points_into_counts_as_kept() -> None:
    judge = Judged(lambda x: x.reshape(64, -1).argmax(-1), 0)
    expected = judge.expectation(PRIMARY, "normal", 0, "random")
    assert expected.size_bytes >= 8 * PARTS
