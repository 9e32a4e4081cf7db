"""Scores over a set of problems. Pure functions; every problem counts, also those that failed."""

from collections.abc import Iterable, Sequence
from math import exp, log
from typing import NamedTuple


class ProblemScore(NamedTuple):
    """What one problem's result counts for."""

    correct: bool
    """A kernel was verified on every workload."""
    speedup: float | None = None
    """Against the baseline that is being scored against; None where it was not measured."""
    custom_share: float | None = None
    """Share of GPU time in the kernel's own code; 0 means that PyTorch did all the work; None if not measured."""


def fast_p(scores: Sequence[ProblemScore], p: float) -> float:
    """Share of all problems that are correct with speedup > p, in [0, 1]; 0 for no problems.

    fast_0 is the share that is correct. Above that a speedup must have been measured, and a result whose own kernels
    take no share of the GPU time never counts. The metric is KernelBench's (Ouyang et al., 2025).
    """
    return sum(_counts(score, p) for score in scores) / len(scores) if scores else 0.0


def _counts(score: ProblemScore, p: float) -> bool:
    if not score.correct or p <= 0:
        return score.correct
    return score.speedup is not None and score.speedup > p and score.custom_share != 0


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean of values >= 0; 0 if any is 0 or there are none. Raises ValueError for a negative one."""
    listed = list(values)
    if any(value < 0 for value in listed):
        raise ValueError(f"geometric mean of a negative value: {min(listed)}")
    if not listed or 0 in listed:
        return 0.0
    return exp(sum(map(log, listed)) / len(listed))
