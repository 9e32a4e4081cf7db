"""From the profiler's list of launches to what one call of a candidate did."""

from collections.abc import Sequence
from statistics import median

from ...state.evidence import KernelUse, ProfilerTiming
from ...state.profile import KernelProfile
from ...state.timing import Timing
from ..kernel_names import credited_kind
from .metrics import CLOCK, DURATION
from .ncu import Launched

AGREEMENT_SHARE = 0.10
AGREEMENT_MS_A_KERNEL = 0.002


def split(launched: Sequence[Launched], calls: int) -> list[list[Launched]]:
    """The launches of each of `calls` equal calls; one list of all where they do not divide into equal calls."""
    size, rest = divmod(len(launched), max(calls, 1))
    parts = [list(launched[i : i + size]) for i in range(0, len(launched), size)] if size and not rest else []
    same = {tuple(kernel.name for kernel in part) for part in parts}
    return parts if len(same) == 1 else [list(launched)]


def profiles(launched: Sequence[Launched], own: set[str]) -> tuple[KernelProfile, ...]:
    """Every launch of one call with its share of the time and its counters; those without a duration are left out."""
    timed = [kernel for kernel in launched if DURATION in kernel.values]
    total_s = sum(kernel.values[DURATION] for kernel in timed)
    return tuple(
        KernelProfile(
            name=kernel.name[:400],
            kind=credited_kind(kernel.name, own),
            stream=kernel.stream,
            grid=kernel.grid,
            duration_ms=kernel.values[DURATION] * 1e3,
            share=min(1.0, kernel.values[DURATION] / total_s) if total_s > 0 else 0.0,
            metrics={name: value for name, value in kernel.values.items() if name != DURATION},
        )
        for kernel in timed
    )


def uses(calls: Sequence[Sequence[Launched]], own: set[str]) -> tuple[KernelUse, ...]:
    """Kernels of a call by name, the longest first: time and launches are the mean over the calls."""
    seconds: dict[str, float] = {}
    launches: dict[str, int] = {}
    for kernel in (kernel for call in calls for kernel in call):
        seconds[kernel.name] = seconds.get(kernel.name, 0.0) + kernel.values.get(DURATION, 0.0)
        launches[kernel.name] = launches.get(kernel.name, 0) + 1
    total_s = sum(seconds.values())
    return tuple(
        KernelUse(
            name=name[:200],
            kind=credited_kind(name, own),
            launches=max(1, round(launches[name] / len(calls))),
            ms=seconds[name] * 1e3 / len(calls),
            share=min(1.0, seconds[name] / total_s) if total_s > 0 else 0.0,
        )
        for name in sorted(seconds, key=lambda name: -seconds[name])
    )


def against_judge(calls: Sequence[Sequence[Launched]], timing: Timing) -> ProfilerTiming | None:
    """Whether the judge's time can be true by the profiler's durations; None where nothing was timed.

    A call takes no less than the kernels of its busiest stream, one after the other (other streams may overlap, so
    their sum is no bound). The judge's median may lie below that by

        10% of the profiler's time + 2 us a kernel,

    of which the 10% are twice the 5% spread that a stable timing may have (`tools.statistics.stable`), once for each
    side, and 2 us is what a kernel's duration holds beside its work: an empty kernel reads 1-2 us in the profiler,
    while a pair of events with the launch queued behind another hides that. Where the SM clock under the profiler was
    lower than under the judge, the profiler's time is first scaled down by the ratio: no kernel gains more from a
    clock. A judge's time *above* the profiler's proves nothing against a candidate (gaps between kernels, copies and
    the host's work are in it and no kernel's duration is), so it is a note.
    """
    sums_ms = [1e3 * sum(kernel.values.get(DURATION, 0.0) for kernel in call) for call in calls]
    busiest_ms = [_busiest_stream_ms(call) for call in calls]
    if not calls or median(busiest_ms) <= 0:
        return None
    profiler_ms, least_ms = median(sums_ms), median(busiest_ms)
    judge_ms = timing.candidate.median_ms
    kernels = round(sum(map(len, calls)) / len(calls))
    scale = _clock_scale(calls, timing)
    bound_ms = AGREEMENT_SHARE * least_ms + AGREEMENT_MS_A_KERNEL * kernels
    note = "" if scale == 1 else f"the SM clock under the profiler was {scale:.0%} of the judge's"
    if judge_ms > profiler_ms + AGREEMENT_SHARE * judge_ms + 2 * AGREEMENT_MS_A_KERNEL * kernels:
        more = f"{judge_ms - profiler_ms:.4f} ms of the judge's time are no kernel's: gaps, copies or the host"
        note = f"{note}; {more}" if note else more
    return ProfilerTiming(
        workload=timing.workload,
        profiler_ms=profiler_ms,
        busiest_stream_ms=least_ms,
        judge_ms=judge_ms,
        bound_ms=bound_ms,
        agrees=judge_ms >= scale * least_ms - bound_ms,
        note=note,
    )


def _busiest_stream_ms(call: Sequence[Launched]) -> float:
    streams: dict[str, float] = {}
    for kernel in call:
        streams[kernel.stream] = streams.get(kernel.stream, 0.0) + 1e3 * kernel.values.get(DURATION, 0.0)
    return max(streams.values(), default=0.0)


def _clock_scale(calls: Sequence[Sequence[Launched]], timing: Timing) -> float:
    """The profiler's SM clock over the judge's where it was lower by more than 2%, else 1."""
    clocks = [kernel.values[CLOCK] for call in calls for kernel in call if kernel.values.get(CLOCK)]
    if not clocks or not timing.sm_clock_mhz:
        return 1.0
    ratio = median(clocks) / (timing.sm_clock_mhz * 1e6)
    return ratio if ratio < 0.98 else 1.0
