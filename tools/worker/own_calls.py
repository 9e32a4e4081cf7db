"""The judge's own side of a measurement: a baseline's calls."""

from collections.abc import Callable
from typing import Any

from .clock import Stopwatch
from .expectation import clone_nested
from .lead import Lead


class OwnCalls:
    """Calls of a baseline in the judge's own process, timed as the child times the candidate."""

    def __init__(self, call: Any, stopwatch: Stopwatch, switch: Callable[[], None]) -> None:
        self.call = call
        self.stopwatch = stopwatch
        self.switch = switch
        """Lets another context of the GPU run, as it does before every call of a candidate."""
        self.lead = Lead()
        self.host_ms = 0.0
        """The host's time to enqueue the last call."""
        self.late = False

    def warm_up(self, arguments: list[Any], count: int) -> None:
        """Runs a few times and learns how long the host takes to enqueue."""
        for _ in range(count):
            reading = self.stopwatch.time(self.call, clone_nested(arguments), 0.0)
            self.lead.learn(reading.host_ms)

    def time(self, arguments: list[Any]) -> tuple[Any, float]:
        """One call: result and ms. `Lead.exposed` tells whether the launch was hidden."""
        self.switch()
        reading = self.stopwatch.time(self.call, arguments, self.lead.ms)
        self.lead.learn(reading.host_ms)
        self.host_ms, self.late = reading.host_ms, reading.late
        return reading.result, reading.ms
