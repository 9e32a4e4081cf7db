"""Outputs of timed calls: held against the baseline's each time, and against the oracle on a call that nobody knows."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expectations.holding import FP32, Function, drawn
from torch import Tensor

from warpsmith.state.evaluation import Status
from warpsmith.tools.worker import attempts, timed
from warpsmith.tools.worker.expectation import Expectation, clone_nested, expect
from warpsmith.tools.worker.pairs import Plan
from warpsmith.tools.worker.session import CandidateFailed
from warpsmith.tools.worker.verifier import Verifier

Forward = Callable[..., Any]


class Judged:
    """What a verifier asks of a judge; counts how often the whole expectation of a draw was made."""

    def __init__(self, forward: Forward) -> None:
        self.models = {"timed": Function(forward)}
        self.asked = 0

    def expected_of(self, weights: str, given: list[Any]) -> Expectation:
        self.asked += 1
        return expect(self.models[weights], given, FP32)

    def workload(self, name: str) -> str:
        return name

    def expect_typical(self, expected: Expectation, *_: Any) -> None:
        expected.expect_typical([leaf.bound_rms for leaf in expected.leaves])


def inputs(seed: int) -> list[Tensor]:
    return [drawn(seed, 64, 96)]


def verifier(judge: Judged, audited: bool) -> Verifier:
    made = Verifier(judge, "default", expect(judge.models["timed"], inputs(0), FP32), (8,))  # type: ignore[arg-type]
    made.audited = {3} if audited else set()
    return made


def test_a_call_of_every_part_is_audited_and_no_other():
    judge = Judged(softmax)
    expected = expect(judge.models["timed"], inputs(0), FP32)
    seen = [Verifier(judge, "default", expected, (3, 2)).audited for _ in range(60)]  # type: ignore[arg-type]
    assert all(len(each) == 2 and min(each) in range(3) and max(each) in (3, 4) for each in seen)
    assert set().union(*seen) == set(range(5))


def test_a_measurement_that_is_repeated_is_audited_too():
    """An unsteady candidate is measured anew, and any attempt may be what counts."""
    judge = Judged(softmax)
    plan = Plan(pairs=14)
    made = Verifier(judge, "default", expect(judge.models["timed"], inputs(0), FP32), timed.parts(plan))  # type: ignore[arg-type]
    for attempt in range(attempts.MOST):
        first = attempt * plan.pairs  # as `run_pairs` numbers them
        assert len(made.audited & set(range(first, first + 10))) == 1
        assert len(made.audited & set(range(first + 10, first + 14))) == 1


def outputs(forward: Forward, given: list[Tensor]) -> list[Tensor]:
    """A call's outputs, and the inputs that it changed."""
    used = clone_nested(given)
    result = forward(*used)
    changed = [after for before, after in zip(given, used, strict=True) if not torch.equal(before, after)]
    return [*(result if isinstance(result, tuple) else (result,)), *changed]


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def in_place(x: Tensor) -> Tensor:
    return x.mul_(2.0).sum(-1)


def with_index(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.amax(-1), x.argmax(-1)


@pytest.mark.parametrize("forward", [softmax, in_place])
def test_an_audit_of_a_right_answer_needs_the_oracle_and_no_bounds_of_its_own(forward: Forward) -> None:
    judge = Judged(forward)
    answer = outputs(forward, inputs(5))
    verifier(judge, audited=True).verify(3, inputs(5), answer, answer)
    assert judge.asked == 0


def test_integers_are_audited_with_the_bounds_of_their_draw() -> None:
    judge = Judged(with_index)
    answer = outputs(with_index, inputs(5))
    verifier(judge, audited=True).verify(3, inputs(5), answer, answer)
    assert judge.asked == 1


def test_outputs_that_are_not_finite_are_audited_with_the_bounds_of_their_draw() -> None:
    def overflowing(x: Tensor) -> Tensor:
        return x * 3e38 * 10

    judge = Judged(overflowing)
    answer = outputs(overflowing, inputs(5))
    verifier(judge, audited=True).verify(3, inputs(5), answer, answer)
    assert judge.asked == 1


@pytest.mark.parametrize("audited", [True, False])
def test_a_call_that_nobody_audits_is_as_good_as_the_baseline(audited: bool) -> None:
    """Baseline and candidate wrong alike, as where both read what a third one wrote: the audit sees it."""
    judge = Judged(softmax)
    wrong = [torch.softmax(inputs(5)[0] * 1.01, -1)]
    made = verifier(judge, audited)
    if not audited:
        made.verify(3, inputs(5), wrong, wrong)
        return
    with pytest.raises(CandidateFailed, match="wrong in timed call 3") as caught:
        made.verify(3, inputs(5), wrong, wrong)
    assert caught.value.status is Status.INCORRECT_NUMERICAL
    assert judge.asked == 1


def test_an_answer_of_another_draw_is_wrong_in_any_call() -> None:
    judge = Judged(softmax)
    right, stale = ([softmax(*inputs(number))] for number in (5, 6))
    with pytest.raises(CandidateFailed, match="right when checked, wrong in timed call 1"):
        verifier(judge, audited=False).verify(1, inputs(5), stale, right)


def test_what_differs_from_the_baseline_and_not_from_the_oracle_is_right() -> None:
    """A baseline of less precision is no measure for a candidate of more."""
    judge = Judged(softmax)
    coarse = [softmax(*inputs(5)).half().float() * 1.001]
    verifier(judge, audited=False).verify(1, inputs(5), [softmax(*inputs(5))], coarse)
    assert judge.asked == 1
