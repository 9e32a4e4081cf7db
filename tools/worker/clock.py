"""The clock inside a process that runs forward calls: CUDA events on a GPU, the host's counter on a CPU.

The launch is hidden behind a blocking kernel, so that what is measured is the GPU's time and not Python's: `lead_ms`
is how long the GPU waits while the host enqueues. Functions are bound here, before any candidate code loads.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch

from . import blocker

_CYCLES_PER_MS = 1.98e6
_WAKE_UP_MS = 0.15
_perf_counter = time.perf_counter


def _nothing() -> None:
    """The call that takes no time."""


@dataclass(frozen=True)
class Reading:
    """One timed call."""

    result: Any
    ms: float
    """Time on the device."""
    host_ms: float
    """The host's time to enqueue it."""
    late: bool = False
    """Whether the device was busy well after the call's own stream was done: work on another stream, or a host that
    woke up late. Where it is the first, it is so every time."""


class Stopwatch:
    """Times calls of a model on one device. `cubin`: the blocking kernel (`blocker.load`)."""

    def __init__(self, device: torch.device, cubin: str = "") -> None:
        self.gpu = device.type == "cuda"
        self.weakness = ""
        """Why the blocking kernel does not fill the GPU; empty if it does."""
        if self.gpu:
            self._event = torch.cuda.Event
            self._synchronize = torch.cuda.synchronize
            try:
                self._hold = blocker.load(cubin)
            except (ImportError, ValueError, RuntimeError) as error:
                self.weakness = str(error)
                self._hold = _one_block

    def synchronize(self) -> None:
        """Waits for everything on the device, on every stream."""
        if self.gpu:
            self._synchronize()

    def event_ms(self) -> float:
        """What a pair of events reads with nothing between them."""
        if not self.gpu:
            return 0.0
        readings = sorted(self.time(_nothing, [], 0.2).ms for _ in range(21))
        return readings[len(readings) // 2]

    def time(self, model: Any, arguments: list[Any], lead_ms: float) -> Reading:
        """One call, behind a lead of so many milliseconds."""
        if not self.gpu:
            started = _perf_counter()
            result = model(*arguments)
            elapsed = (_perf_counter() - started) * 1e3
            return Reading(result, elapsed, elapsed)
        start, end = self._event(enable_timing=True), self._event(enable_timing=True)
        if lead_ms > 0:
            self._hold(lead_ms)
        start.record()
        started = _perf_counter()
        result = model(*arguments)
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
        return Reading(result, overall if late else on_stream, host_ms, late)


def _one_block(lead_ms: float) -> None:
    torch.cuda._sleep(int(lead_ms * _CYCLES_PER_MS))
