"""Which two of the tried kernels make a better one together: one for large inputs, one for small ones. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod, sqrt

from ..state.base import Record
from ..state.evaluation import Evaluation, Status
from ..state.problem import Problem, Workload
from ..state.scores import geometric_mean
from ..sub_agents.two_in_one import SizeRule

WORTH = 1.03
"""Least gain in the geometric mean over the best single kernel: the best of many measurements flatters each half."""


class Pair(Record):
    """Two kernels and the size that tells which runs."""

    large: str
    small: str
    rule: SizeRule
    expected: float
    """Speedup over all workloads if each runs as fast as alone."""


def best_pair(problem: Problem, evaluations: Mapping[str, Evaluation], best_rank: float) -> Pair | None:
    """The pair that promises most; None where no pair is worth it or no input's size tells the workloads apart."""
    names = [workload.name for workload in problem.timed_workloads]
    speedups = {id: found for id, each in evaluations.items() if (found := _speedups(each, names))}
    pairs = [
        pair
        for argument in _tensors(problem.timed_workloads)
        for limit, below in _limits(problem.timed_workloads, argument)
        if (pair := _pair(speedups, below, SizeRule(argument=argument, elements=limit)))
    ]
    best = max(pairs, key=lambda pair: pair.expected, default=None)
    return best if best is not None and best.expected >= WORTH * best_rank else None


def _speedups(evaluation: Evaluation, names: Sequence[str]) -> dict[str, float] | None:
    """Speedup by workload of a kernel that passed and was timed on all of them."""
    found = {timing.workload: timing.speedup for timing in evaluation.timings}
    return found if evaluation.status is Status.PASSED and found.keys() == set(names) else None


def _tensors(workloads: Sequence[Workload]) -> list[int]:
    """Positions of the inputs that are tensors in every workload: an optional one may be None in some."""
    columns = zip(*(workload.inputs for workload in workloads), strict=False)
    return [
        place
        for place, column in enumerate(columns)
        if all(isinstance(each, dict) and "shape" in each for each in column)
    ]


def _limits(workloads: Sequence[Workload], argument: int) -> list[tuple[int, frozenset[str]]]:
    """Sizes of an input between those of the workloads, each with the names of the workloads below it."""
    sizes = {workload.name: int(prod(workload.inputs[argument]["shape"])) for workload in workloads}
    return [
        (_between(low, high), frozenset(name for name, size in sizes.items() if size <= low))
        for low, high in pairwise(sorted(set(sizes.values())))
    ]


def _between(low: int, high: int) -> int:
    """A power of two above the one and not above the other if there is one, near the middle; else the middle."""
    middle = max(low + 1, round(sqrt(max(low, 1) * high)))
    power = 1 << (middle - 1).bit_length()
    return next((each for each in (power, power >> 1) if low < each <= high), min(middle, high))


def _pair(speedups: Mapping[str, Mapping[str, float]], below: frozenset[str], rule: SizeRule) -> Pair | None:
    """The best kernel for each side of a limit, if they are two."""

    def gain(id: str, small: bool) -> float:
        return geometric_mean(speedup for name, speedup in speedups[id].items() if (name in below) is small)

    if not speedups:
        return None
    large, small = (max(speedups, key=lambda id: gain(id, side)) for side in (False, True))
    if large == small:
        return None
    each = [speedups[small if name in below else large][name] for name in speedups[large]]
    return Pair(large=large, small=small, rule=rule, expected=geometric_mean(each))
