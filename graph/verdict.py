"""An evaluation as lines for a person."""

from collections.abc import Iterator

from ..state.evaluation import Evaluation
from ..state.wording import counted, estimated
from .evidence_lines import evidence_lines
from .feedback import PLACES
from .kernel_lines import kernel_lines


def verdict_lines(evaluation: Evaluation) -> Iterator[str]:
    """Status first, then the evidence: one line a failed check, a workload, a note."""
    message = f": {evaluation.message}" if evaluation.message else ""
    yield f"{evaluation.status.value}{message}"
    for check in evaluation.checks:
        if not check.passed:
            where = "a hidden workload" if check.hidden else f"{check.workload}, {check.draw}"
            where += f", {PLACES[check.place]}" if check.place else ""
            yield f"  wrong on {where}: {check.worst or 'error beyond its bound'}"
    right = sum(check.passed for check in evaluation.checks)
    if evaluation.checks:
        checks = counted(len(evaluation.checks), "check")
        yield f"  {right} of {checks} passed, error class {evaluation.error_class or 'unknown'}"
    for timing in evaluation.timings:
        own, base = (
            f"{timing.candidate.median_ms:.4g} ms",
            f"{timing.baseline_name} ({timing.baseline.median_ms:.4g} ms)",
        )
        yield f"  {timing.workload}: {own}, {timing.speedup:.3g}x over {base}, {timing.verdict}"
        yield f"    {timing.sol_fraction:.0%} of the speed of light"
    for line in kernel_lines(evaluation.compile):
        yield f"  kernel {line}"
    if evaluation.evidence is not None:
        yield from evidence_lines(evaluation.evidence)
    if evaluation.estimate is not None:
        yield f"  {evaluation.estimate.ms:.4g} ms, {estimated(evaluation.estimate.sol_fraction)}; untimed"
    for note in (*evaluation.labels, *evaluation.notes):
        yield f"  note: {note}"
