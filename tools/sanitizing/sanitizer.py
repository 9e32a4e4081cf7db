"""Has a candidate run under compute-sanitizer's tools, and reads what they say."""

from ...state.errors import InfraError
from ...state.evidence import SanitizerResult, SanitizerTool
from ..outside import LOG, CannotRun, Job, Order, Outside, last_line
from . import compute_sanitizer

DEADLINE_S = 45.0


def check(outside: Outside, job: Job, tool: SanitizerTool, own: set[str]) -> SanitizerResult:
    """One tool on one workload. Clean is only what ran to its end."""
    path = compute_sanitizer.find()
    if path is None:
        return compute_sanitizer.not_run(tool, "no compute-sanitizer")
    order = Order(
        tool=(path, *compute_sanitizer.arguments(tool, LOG)),
        environment=compute_sanitizer.ENVIRONMENT,
        deliver=True,
        deadline_s=DEADLINE_S,
    )
    try:
        ran = outside.run(job, order)
    except (CannotRun, InfraError) as error:  # what other tools saw still counts
        return compute_sanitizer.not_run(tool, str(error))
    found = compute_sanitizer.verdict(tool, ran.log, own, job.workload)
    if found.outcome == "hazard":
        return found
    if ran.timed_out:
        return compute_sanitizer.not_run(tool, f"did not end within {DEADLINE_S:.0f} s")
    if not compute_sanitizer.is_whole(ran.log):
        return compute_sanitizer.not_run(tool, f"no report: {last_line(ran.output)}")
    if ran.code or not ran.outputs_path.is_file():
        return compute_sanitizer.not_run(tool, f"the program ended with code {ran.code}: {last_line(ran.output)}")
    return found
