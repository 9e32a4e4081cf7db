"""What was found from outside, as lines for a person."""

from collections.abc import Iterator

from ..state.evidence import Evidence, ProfilerTiming, Reproduction, SanitizerResult

_SHOWN_KERNELS = 8
_SHOWN_NAME = 80


def evidence_lines(evidence: Evidence) -> Iterator[str]:
    """One line a question that was asked, answered or not."""
    if evidence.sanitizers:
        yield f"  sanitizers: {', '.join(map(_sanitizer, evidence.sanitizers))}"
    if evidence.reproduction is not None:
        yield f"  fresh processes: {_reproduction(evidence.reproduction)}"
    if evidence.profiler is not None:
        yield f"  profiler: {_profiler(evidence.profiler)}"
    elif evidence.profiler_reason:
        yield f"  profiler: not profiled ({evidence.profiler_reason})"
    if evidence.kernels:
        source = "by the profiler" if evidence.kernels_from == "profiler" else "as traced in its own process"
        libraries = ", ".join(f"{count} of {name}" for name, count in evidence.libraries.items())
        yield f"  kernels of a call, {source}; not its own: {libraries or 'none'}"
    for kernel in evidence.kernels[:_SHOWN_KERNELS]:
        times = f" x{kernel.launches}" if kernel.launches > 1 else ""
        yield f"    {kernel.share:4.0%} {kernel.ms:.4g} ms{times} {kernel.kind}: {kernel.name[:_SHOWN_NAME]}"
    if len(evidence.kernels) > _SHOWN_KERNELS:
        yield f"    and {len(evidence.kernels) - _SHOWN_KERNELS} more"
    for note in evidence.notes:
        yield f"  note: {note}"


def _sanitizer(result: SanitizerResult) -> str:
    if result.hazard is not None:
        return f"{result.tool} found {result.hazard.kind} in {result.hazard.kernel or 'a kernel without a name'}"
    return f"{result.tool} {result.outcome}" + (f" ({result.reason})" if result.reason else "")


def _reproduction(found: Reproduction) -> str:
    if found.bitwise is None:
        return f"not compared ({found.reason})"
    if found.bitwise:
        return f"{found.runs} give the same bits on {found.workload}"
    return f"{found.workload}: {found.reason}"


def _profiler(found: ProfilerTiming) -> str:
    relation = "agrees with" if found.agrees else "CONTRADICTS"
    text = f"{found.profiler_ms:.4g} ms in kernels {relation} {found.judge_ms:.4g} ms timed on {found.workload}"
    note = f"; {found.note}" if found.note else ""
    return f"{text} (bound {found.bound_ms:.2g} ms{note})"
