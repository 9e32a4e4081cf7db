"""Asks Nsight Compute about a candidate, and says why where it cannot."""

from collections.abc import Sequence

from ...state.evidence import KernelUse, ProfilerTiming
from ...state.profile import Profile
from ...state.timing import Timing
from ..outside import LOG, CannotRun, Job, Order, Outside, Ran, last_line
from . import calls, ncu
from .metrics import BASIC_METRICS, DURATION, METRICS, TIMING_METRICS, Metric

_DEADLINE_S = 90.0
_ATTEMPTS = 4
"""A version may name only the first metric that it does not know."""
_TIMED_CALLS = 5
_WARM_UPS = 20
"""The card's clocks have risen by then."""


class Profiler:
    """Remembers which metrics this machine's version does not know."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._unknown: set[str] = set()

    def profile(self, job: Job, own: set[str], gate: str = "") -> Profile:
        """Counters of every kernel of one call, each with a cold cache; or the reason for none."""
        try:
            launched = self._capture(job, METRICS, 1, gate)
        except CannotRun as error:
            return Profile(candidate=job.candidate.id, reason=f"not profiled ({error})")
        return Profile(candidate=job.candidate.id, kernels=calls.profiles(launched, own))

    def durations(
        self, job: Job, timing: Timing, own: set[str], gate: str = ""
    ) -> tuple[ProfilerTiming, tuple[KernelUse, ...]]:
        """Kernel times of whole calls under the judge's conditions: L2 emptied before each call, not inside it.

        The program waits for a gate of the job before its first call. Raises CannotRun.
        """
        parts = calls.split(self._capture(job, TIMING_METRICS, _TIMED_CALLS, gate), _TIMED_CALLS)
        found = calls.against_judge(parts, timing)
        if found is None:
            raise CannotRun("nothing captured")
        return found, calls.uses(parts, own)

    def _capture(self, job: Job, metrics: Sequence[Metric], count: int, gate: str = "") -> list[ncu.Launched]:
        """Launches with a duration. Asks again without what the tool does not know. Raises CannotRun."""
        path = ncu.find()
        if path is None:
            raise CannotRun("no ncu")
        flush = metrics is METRICS

        def log_of(asked: Sequence[Metric]) -> str:
            options = ncu.arguments(asked, LOG, flush_each_kernel=flush)
            order = Order(tool=(path, *options), warm_ups=_WARM_UPS, captured=count, gate=gate, deadline_s=_DEADLINE_S)
            return _report(self._outside.run(job, order))

        for _ in range(_ATTEMPTS):
            log = log_of([metric for metric in metrics if metric.name not in self._unknown])
            launched = ncu.read(log)
            unknown = ncu.unknown_metrics(log) - self._unknown
            self._unknown |= unknown
            if launched or not unknown:
                break
        if not launched and flush and "==ERROR==" in log and not ncu.known_reason(log):
            launched = ncu.read(log_of(BASIC_METRICS))
        timed = [kernel for kernel in launched if DURATION in kernel.values]
        if not timed:
            raise CannotRun(ncu.failure(log, "nothing captured"))
        return timed


def _report(ran: Ran) -> str:
    """The tool's report. Raises CannotRun where there is nothing to learn from it."""
    if ran.timed_out:
        raise CannotRun(f"ncu did not end within {_DEADLINE_S:.0f} s")
    if ran.code and "==ERROR==" not in ran.log and not ncu.read(ran.log):
        raise CannotRun(f"the program ended with code {ran.code}: {last_line(ran.output)}")
    return ran.log
