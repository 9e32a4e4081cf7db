"""What a verdict tells of a hidden workload: that it failed, how, and in what kind of place; never a shape or index."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from warpsmith.state.evaluation import Status
from warpsmith.state.problem import Workload
from warpsmith.tools.worker import hidden, verdict
from warpsmith.tools.worker.expectation import Finding
from warpsmith.tools.worker.session import CandidateFailed
from warpsmith.tools.worker.trial import as_check

WRONG = Finding(sound=False, error=1.0, bound=1e-6, value=2.0, worst="at [3, 16] of [4, 17]: 0 instead of 1")
SECRET = Workload(name=f"{hidden.PREFIX}5", arguments={"rows": 17})
SHOWN = Workload(name="odd", arguments={"rows": 17})


class FailingTrial(SimpleNamespace):
    """A trial whose every check ends in the same failure."""

    def check(self, workload: Workload, kind: str) -> Any:
        raise CandidateFailed(Status.INCORRECT_SHAPE, "output 0 has shape [17, 4], not [4, 17]")


def test_a_check_of_a_hidden_workload_has_no_name_and_no_place() -> None:
    check = as_check(SECRET.name, "normal", passed=False, finding=WRONG)
    assert (check.workload, check.hidden, check.worst) == ("hidden", True, "")
    assert check.error_rms == 0.5


def test_a_check_of_a_declared_workload_says_where() -> None:
    check = as_check(SHOWN.name, "normal", passed=False, finding=WRONG)
    assert (check.workload, check.hidden) == ("odd", False)
    assert "[3, 16]" in check.worst


def test_a_failure_on_a_hidden_workload_gives_no_shape_away() -> None:
    with pytest.raises(CandidateFailed) as caught:
        verdict._checked(FailingTrial(), SECRET, "normal")
    assert caught.value.status is Status.INCORRECT_SHAPE
    assert "17" not in caught.value.message


def test_a_failure_on_a_declared_workload_keeps_its_message() -> None:
    with pytest.raises(CandidateFailed, match=r"\[17, 4\]"):
        verdict._checked(FailingTrial(), SHOWN, "normal")


@pytest.mark.parametrize("workload", [SECRET, SHOWN])
def test_the_place_of_an_error_is_told_by_class_for_every_workload(workload):
    failed = dataclasses.replace(WRONG, place="tail")
    assert as_check(workload.name, "normal", passed=False, finding=failed).place == "tail"
    assert as_check(workload.name, "normal", passed=True, finding=failed).place == ""


class LaidOut(SimpleNamespace):
    """A trial that answers each layout of its inputs in its own way."""

    def check(self, workload: Workload, kind: str, layout: str = "plain") -> Any:
        self.asked.append(layout)
        answer = self.answers.get(layout)
        if isinstance(answer, BaseException):
            self.session.crashed = self.crashes
            raise answer
        return as_check(workload.name, kind, passed=answer is None, finding=WRONG)


def laid_out(answers: dict[str, Any], layouts: str = "given", crashes: bool = False) -> tuple[Any, LaidOut]:
    judge: Any = SimpleNamespace(problem=SimpleNamespace(smallest=SHOWN, layouts=layouts))
    return judge, LaidOut(asked=[], answers=answers, crashes=crashes, session=SimpleNamespace(crashed=False, notes=[]))


WRONG_THERE = CandidateFailed(Status.RUNTIME_ERROR, "misaligned address")


@pytest.mark.parametrize(
    ("answers", "labels"),
    [
        ({}, ()),
        ({"strided": "wrong"}, ("assumes_contiguous",)),
        ({"misaligned": WRONG_THERE}, ("assumes_aligned",)),
        ({"strided": "wrong", "misaligned": WRONG_THERE}, ("assumes_contiguous", "assumes_aligned")),
    ],
)
def test_other_layouts_are_labels_where_a_problem_does_not_ask_for_them(answers, labels):
    judge, trial = laid_out(answers)
    assert verdict._other_layouts(judge, trial) == labels
    assert trial.asked == ["strided", "misaligned"]


@pytest.mark.parametrize(
    ("answers", "status"),
    [({"strided": "wrong"}, Status.INCORRECT_NUMERICAL), ({"misaligned": WRONG_THERE}, Status.RUNTIME_ERROR)],
)
def test_other_layouts_decide_where_a_problem_asks_for_any(answers, status):
    judge, trial = laid_out(answers, layouts="any")
    with pytest.raises(CandidateFailed, match=r"^on (strided|misaligned) inputs of odd: ") as caught:
        verdict._other_layouts(judge, trial)
    assert caught.value.status is status


def test_nothing_more_is_asked_after_a_crash():
    judge, trial = laid_out({"strided": WRONG_THERE}, crashes=True)
    assert verdict._other_layouts(judge, trial) == ("assumes_contiguous",)
    assert trial.asked == ["strided"]


def test_a_layout_that_does_not_fit_in_memory_accuses_nobody():
    short = torch.OutOfMemoryError("no room")
    judge, trial = laid_out({"strided": short})
    assert verdict._other_layouts(judge, trial) == ()
    assert trial.asked == ["strided", "misaligned"]
    assert trial.session.notes == ["strided inputs: not tried, they do not fit in GPU memory beside the others"]
    strict, trial = laid_out({"strided": short}, layouts="any")
    with pytest.raises(torch.OutOfMemoryError):
        verdict._other_layouts(strict, trial)
