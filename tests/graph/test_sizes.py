"""Which two kernels make a better one together."""

import pytest
from scripted.collaborators import timing

from warpsmith.graph.sizes import best_pair
from warpsmith.state.evaluation import Check, Evaluation, Status
from warpsmith.state.problem import Problem, Workload


def workload(name: str, *shapes: tuple[int, ...], timed: bool = True) -> Workload:
    return Workload(name=name, inputs=(2.0, *({"shape": shape} for shape in shapes)), timed=timed)


def problem(*workloads: Workload) -> Problem:
    default = (workload("default", (4096, 1024), (1024,)), workload("odd", (100, 1000), (1000,)))
    return Problem(name="p", path="p.py", source="", workloads=workloads or default)


def judged(status: Status = Status.PASSED, **speedups: float) -> Evaluation:
    timings = tuple(timing(name, speedup) for name, speedup in speedups.items())
    check = Check(workload="default", draw="normal", passed=status is Status.PASSED)
    kept = timings if status is Status.PASSED else ()
    return Evaluation(
        candidate="c", problem="p", status=status, tier="quick", timings=kept, checks=(check,), message="m"
    )


LARGE, SMALL = judged(default=3.0, odd=0.5), judged(default=0.5, odd=2.0)


def test_each_kernel_runs_where_it_is_the_faster_one() -> None:
    pair = best_pair(problem(), {"a": LARGE, "b": SMALL, "c": judged(default=1.4, odd=1.4)}, best_rank=1.4)
    assert pair is not None
    assert (pair.large, pair.small) == ("a", "b")
    assert pair.expected == pytest.approx(6**0.5)
    assert pair.rule.argument == 1
    assert 100_000 < pair.rule.elements <= 4096 * 1024
    assert pair.rule.elements.bit_count() == 1


@pytest.mark.parametrize(
    "evaluations",
    [
        {},
        {"a": LARGE},
        {"a": LARGE, "b": judged(default=0.5, odd=0.49)},  # no better anywhere
        {"a": LARGE, "b": judged(Status.INCORRECT_NUMERICAL, default=0.5, odd=2.0)},
        {"a": LARGE, "b": judged(odd=2.0)},  # not timed on all
    ],
)
def test_without_two_kernels_that_are_each_the_faster_one_somewhere_there_is_no_pair(evaluations) -> None:
    assert best_pair(problem(), evaluations, best_rank=0.1) is None


@pytest.mark.parametrize(("best_rank", "worth"), [(2.37, True), (2.40, False)])
def test_a_pair_has_to_promise_more_than_noise(best_rank: float, worth: bool) -> None:
    assert (best_pair(problem(), {"a": LARGE, "b": SMALL}, best_rank) is not None) is worth


def test_inputs_of_one_size_tell_nothing_apart() -> None:
    same = problem(workload("default", (64, 64)), workload("odd", (4096,)))
    assert best_pair(same, {"a": LARGE, "b": SMALL}, best_rank=0.1) is None


@pytest.mark.parametrize("other", [None, 3.0, {"type": "list"}])
def test_an_input_that_is_no_tensor_everywhere_tells_nothing(other) -> None:
    odd = workload("odd", (100,)).model_copy(update={"inputs": (2.0, other)})
    mixed = problem(workload("default", (4096,)), odd)
    assert best_pair(mixed, {"a": LARGE, "b": SMALL}, best_rank=0.1) is None


def test_workloads_that_are_not_timed_say_nothing() -> None:
    checked = problem(workload("default", (64, 64)), workload("odd", (8, 8)), workload("tiny", (1,), timed=False))
    pair = best_pair(checked, {"a": LARGE, "b": SMALL}, best_rank=0.1)
    assert pair is not None
    assert pair.rule.elements > 64


def test_the_limit_lies_between_sizes_that_are_next_to_each_other() -> None:
    near = problem(workload("default", (1001,)), workload("odd", (1000,)))
    pair = best_pair(near, {"a": LARGE, "b": SMALL}, best_rank=0.1)
    assert pair is not None
    assert pair.rule.elements == 1001
