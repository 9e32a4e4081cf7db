"""The clock inside a process that runs forward calls: CUDA events on a GPU, the host's counter on a CPU.

The launch is hidden behind a blocking kernel, so that what is measured is the GPU's time and not Python's: `lead_ms`
is how long the GPU waits while the host enqueues. Functions are bound here, before any candidate code loads.
"""

import time
from typing import Any

import torch

_CYCLES_PER_MS = 1.98e6
_WAKE_UP_MS = 0.15
_perf_counter = time.perf_counter


def _nothing() -> None:
    """The call that takes no time."""


class Stopwatch:
    """Times calls of a model on one device."""

    def __init__(self, device: torch.device) -> None:
        self.gpu = device.type == "cuda"
        if self.gpu:
            self._event = torch.cuda.Event
            self._sleep = torch.cuda._sleep
            self._synchronize = torch.cuda.synchronize

    def synchronize(self) -> None:
        """Waits for everything on the device, on every stream."""
        if self.gpu:
            self._synchronize()

    def event_ms(self) -> float:
        """What a pair of events reads with nothing between them."""
        if not self.gpu:
            return 0.0
        readings = sorted(self.time_many(_nothing, [[]], 0.2)[1] for _ in range(21))
        return readings[len(readings) // 2]

    def time(self, model: Any, arguments: list[Any], lead_ms: float) -> tuple[Any, float, float]:
        """One call: its result, its time on the device, and the host's time to enqueue it, both in ms."""
        results, milliseconds, host_ms = self.time_many(model, [arguments], lead_ms)
        return results[0], milliseconds, host_ms

    def time_many(self, model: Any, sets: list[list[Any]], lead_ms: float) -> tuple[list[Any], float, float]:
        """Calls on each set of arguments in turn, between one pair of events that spans all of them."""
        if not self.gpu:
            started = _perf_counter()
            results = [model(*arguments) for arguments in sets]
            elapsed = (_perf_counter() - started) * 1e3
            return results, elapsed, elapsed
        start, end = self._event(enable_timing=True), self._event(enable_timing=True)
        if lead_ms > 0:
            self._sleep(int(lead_ms * _CYCLES_PER_MS))
        start.record()
        started = _perf_counter()
        results = [model(*arguments) for arguments in sets]
        host_ms = (_perf_counter() - started) * 1e3
        end.record()
        # Work on other streams that outlives `end` counts too: a second event, once the whole device is idle. It comes
        # late by the host's wake-up, so it decides only where it is clearly later.
        self._synchronize()
        last = self._event(enable_timing=True)
        last.record()
        self._synchronize()
        on_stream, overall = float(start.elapsed_time(end)), float(start.elapsed_time(last))
        late = overall - on_stream > max(_WAKE_UP_MS, 0.2 * on_stream)
        return results, overall if late else on_stream, host_ms
