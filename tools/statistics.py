"""Statistics of run times: medians with distribution-free intervals, robust spread, and the paired gate."""

from collections.abc import Sequence
from math import sqrt
from statistics import median, pstdev

from ..state.timing import Sample

SPREAD_LIMIT = 0.05
"""Largest spread (trimmed standard deviation over median) of a timing that counts as stable."""
NOISE = 0.01
"""A paired gain or loss within this share of 1 is a tie even if its interval excludes 1."""
_TRIM = 0.05
_Z95 = 1.96


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95% interval of the median by order statistics (binomial, normal approximation); needs no distribution."""
    ordered = sorted(values)
    n = len(ordered)
    half = _Z95 * sqrt(n) / 2
    low, high = int(n / 2 - half), int(n / 2 + half)
    return ordered[max(0, low)], ordered[min(n - 1, high)]


def spread(values: Sequence[float]) -> float:
    """Standard deviation over median, after 5% of the samples at each end are dropped: one hiccup is no instability."""
    ordered = sorted(values)
    cut = int(len(ordered) * _TRIM)
    kept = ordered[cut : len(ordered) - cut] if cut else ordered
    return pstdev(kept) / median(kept) if len(kept) > 1 else 0.0


def sample(values: Sequence[float]) -> Sample:
    """Summary of one side of a measurement, times in ms."""
    low, high = interval(values)
    return Sample(median_ms=median(values), std_ms=pstdev(values), low_ms=low, high_ms=high, count=len(values))


def paired_verdict(baseline_ms: Sequence[float], candidate_ms: Sequence[float]) -> str:
    """`win`, `tie` or `loss`: the 95% interval of the paired ratio lies above, around or below 1, beyond noise."""
    low, high = interval([b / c for b, c in zip(baseline_ms, candidate_ms, strict=True)])
    if low > 1 + NOISE:
        return "win"
    return "loss" if high < 1 - NOISE else "tie"
