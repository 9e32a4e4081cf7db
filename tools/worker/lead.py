"""How long a GPU is held before a timed call."""

from collections import deque


class Lead:
    """How long the GPU waits before a timed call, so that the host has enqueued all of it by then.

    A host that was idle takes several times as long as a warm one, so the margin is wide, and a call that was exposed
    all the same is told so that it can be measured again. One slow call among the last few says nothing of the next:
    each millisecond of lead is paid for in every pair. Bounded: a call that synchronises gains nothing.
    """

    MARGIN = 3.0
    LEAST_MS = 0.3
    RECENT = 8

    def __init__(self, longest_ms: float = 5.0) -> None:
        self.longest_ms = longest_ms
        self.ms = self.LEAST_MS
        self.exposed = False
        self._recent_ms: deque[float] = deque(maxlen=self.RECENT)

    def learn(self, host_ms: float) -> None:
        """Takes in the host's time of one call."""
        self.exposed = host_ms > 0.9 * self.ms and self.ms < self.longest_ms
        self._recent_ms.append(host_ms)
        ordinary_ms = sorted(self._recent_ms)[-2:][0]  # the second longest: all but one were done by then
        self.ms = min(self.longest_ms, self.LEAST_MS + self.MARGIN * ordinary_ms)
