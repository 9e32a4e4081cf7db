"""Attempts at one measurement: the last alone where it is steady, or all together."""

from dataclasses import dataclass, field
from statistics import median

from .. import statistics

MOST = 4
"""The first and up to three more where times scatter."""
_MOST_APART = 0.25
"""Width of the middle half, as a share of the median, up to which samples are of one kind: where calls are now fast and
now slow, a median of many tells which are more, and not how long a call takes."""


@dataclass
class Attempts:
    """Times of the pairs of each attempt, in ms.

    A kernel may scatter by its own nature, and then does so every time. A median is the better known the more samples
    it is of: what one attempt leaves open, several together may tell. A disturbance that ends is left behind as soon as
    one attempt is steady.
    """

    candidate_ms: list[float] = field(default_factory=list)
    """What counts, as of the last attempt."""
    baseline_ms: list[float] = field(default_factory=list)
    stable: bool = False
    """Whether the candidate's time is known."""
    count: int = 0
    _all_candidate_ms: list[float] = field(default_factory=list)
    _all_baseline_ms: list[float] = field(default_factory=list)

    def add(self, candidate_ms: list[float], baseline_ms: list[float], slowed: bool = False) -> None:
        """Takes in one attempt. What was `slowed` tells nothing of others: it counts only until another follows."""
        self.count += 1
        self.candidate_ms, self.baseline_ms = candidate_ms, baseline_ms
        self.stable = statistics.stable(candidate_ms)
        if slowed:
            return
        self._all_candidate_ms += candidate_ms
        self._all_baseline_ms += baseline_ms
        if not self.stable and _known_together(self._all_candidate_ms):
            self.candidate_ms, self.baseline_ms = list(self._all_candidate_ms), list(self._all_baseline_ms)
            self.stable = True

    def scatter(self) -> str:
        """How the times scatter, for a note."""
        low, high = statistics.middle_half(self.candidate_ms)
        spread = statistics.spread(self.candidate_ms)
        return f"spread {spread:.1%}, the middle half {low * 1e3:.1f} to {high * 1e3:.1f} us, {self.count} measurements"


def _known_together(times_ms: list[float]) -> bool:
    low, high = statistics.middle_half(times_ms)
    return statistics.stable(times_ms) and high - low <= _MOST_APART * median(times_ms)
