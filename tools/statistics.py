"""Statistics of run times: medians with distribution-free intervals, robust spread, and the paired gate."""

from collections.abc import Sequence
from functools import cache
from math import comb
from statistics import median, pstdev

from ..state.timing import Sample

SPREAD_LIMIT = 0.05
"""Largest spread (trimmed standard deviation over median) of a timing that counts as stable, and largest width of its
median's 95% interval: where samples scatter but their median is known, the time is."""
RESOLUTION_MS = 6e-4
"""Events tick in steps of 32 ns, and the gap between two kernels scatters by half a microsecond: below 12 us that alone
is more than 5%."""
NOISE = 0.01
"""A paired gain or loss within this share of 1 is a tie even if its interval excludes 1."""
_TRIM = 0.05
_ONE_MISS_IN = 20


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95% interval of the median by order statistics; needs no distribution. Below 6 samples all that was seen."""
    ordered = sorted(values)
    outside = _outside(len(ordered))
    return ordered[outside], ordered[-1 - outside]


@cache
def _outside(count: int) -> int:
    """How many samples at each end lie outside the interval: the most that keep its coverage at 95%.

    The median lies outside the k-th samples from both ends exactly if fewer than k of `count` fair coins fall on one
    side.
    """
    tail = 0
    for k in range(count // 2 + 1):
        tail += comb(count, k)
        if 2 * tail * _ONE_MISS_IN > 2**count:
            return max(0, k - 1)
    return 0


def spread(values: Sequence[float]) -> float:
    """Standard deviation over median, after 5% of the samples at each end are dropped: one hiccup is no instability."""
    ordered = sorted(values)
    cut = int(len(ordered) * _TRIM)
    kept = ordered[cut : len(ordered) - cut] if cut else ordered
    return pstdev(kept) / median(kept) if len(kept) > 1 else 0.0


def middle_half(values: Sequence[float]) -> tuple[float, float]:
    """The first and third quartile."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return ordered[cut], ordered[-1 - cut]


def stable(values: Sequence[float]) -> bool:
    """Whether times in ms are steady: their spread or their median's interval within 5%, or what events resolve."""
    found, middle = spread(values), median(values)
    low, high = interval(values)
    return found <= SPREAD_LIMIT or high - low <= SPREAD_LIMIT * middle or found * middle <= RESOLUTION_MS


def sample(values: Sequence[float]) -> Sample:
    """Summary of one side of a measurement, times in ms."""
    low, high = interval(values)
    return Sample(median_ms=median(values), std_ms=pstdev(values), low_ms=low, high_ms=high, count=len(values))


def settled(baseline_ms: Sequence[float], candidate_ms: Sequence[float]) -> bool:
    """Whether the 95% interval of the paired ratio is no wider than the share that counts as a tie anyway."""
    ratios = [b / c for b, c in zip(baseline_ms, candidate_ms, strict=True)]
    low, high = interval(ratios)
    return high - low <= NOISE * median(ratios)


def paired_verdict(baseline_ms: Sequence[float], candidate_ms: Sequence[float]) -> str:
    """`win`, `tie` or `loss`: the 95% interval of the paired ratio lies above, around or below 1, beyond noise."""
    low, high = interval([b / c for b, c in zip(baseline_ms, candidate_ms, strict=True)])
    if low > 1 + NOISE:
        return "win"
    return "loss" if high < 1 - NOISE else "tie"
