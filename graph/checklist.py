"""The final checklist: what a result claims, each line with its evidence. A line is open where nothing says."""

from collections.abc import Sequence

from ..state.evaluation import Evaluation, Status
from ..state.problem import Problem
from ..state.scores import geometric_mean
from ..state.timing import Timing
from ..state.trajectory import CheckLine
from ..state.wording import counted
from .source_facts import special_cases, unnamed_numbers

FAST, SLOW = 1.05, 0.90
"""Speedups: at or above the first on one workload and at or below the second on another is fast at one size only."""
AGREE = 0.05
"""Most that the last measurement may fall short of the earlier ones, as a share."""


def fast_at_one_size_only(timings: Sequence[Timing]) -> bool:
    """Whether a kernel gains on one workload what it loses on another."""
    speedups = [timing.speedup for timing in timings]
    return len(speedups) > 1 and max(speedups) >= FAST and min(speedups) <= SLOW


def checklist(
    problem: Problem, source: str, final: Evaluation, earlier: Sequence[Evaluation], dry_run: bool
) -> tuple[CheckLine, ...]:
    """Lines for a winner: `final` is its last verdict, `earlier` are those before it."""
    return (
        _every_workload(problem, final),
        _every_size(problem, final),
        _verdict(final, dry_run),
        _repeated(final, earlier),
        _numbers(source, problem),
        _special_cases(source),
        _hidden(problem, final, dry_run),
    )


def _every_workload(problem: Problem, final: Evaluation) -> CheckLine:
    wanted = {workload.name for workload in problem.timed_workloads}
    timed = {timing.workload: timing.speedup for timing in final.timings}
    if not timed:
        return CheckLine(name="timed on every workload", passed=None, evidence="nothing was timed")
    worst = min(timed, key=lambda name: timed[name])
    return CheckLine(
        name="timed on every workload",
        passed=wanted <= timed.keys(),
        evidence=f"{len(timed)} of {len(wanted)}; worst {timed[worst]:.3g}x ({worst}), "
        f"geometric mean {geometric_mean(timed.values()):.3g}x",
    )


def _every_size(problem: Problem, final: Evaluation) -> CheckLine:
    name = "not fast at one size only"
    if len(final.timings) < 2:
        about = "one workload is timed" if len(problem.timed_workloads) == 1 else "nothing was timed"
        return CheckLine(name=name, passed=None, evidence=about)
    each = ", ".join(f"{timing.workload} {timing.speedup:.3g}x {timing.verdict}" for timing in final.timings)
    return CheckLine(name=name, passed=not fast_at_one_size_only(final.timings), evidence=each)


def _verdict(final: Evaluation, dry_run: bool) -> CheckLine:
    passed = sum(check.passed for check in final.checks)
    status = final.status.value
    return CheckLine(
        name="most thorough verdict",
        passed=None if dry_run else final.tier == "record" and final.status is Status.PASSED,
        evidence=f"tier {final.tier}: {status}, {passed} of {counted(len(final.checks), 'comparison')} passed",
    )


def _repeated(final: Evaluation, earlier: Sequence[Evaluation]) -> CheckLine:
    ranks = [evaluation.rank for evaluation in earlier if evaluation.rank > 0 and evaluation.timings]
    if not ranks or not final.timings:
        about = "one measurement" if final.timings else "nothing was timed"
        return CheckLine(name="measured more than once", passed=None, evidence=about)
    shown = ", ".join(f"{rank:.3g}x" for rank in (*ranks, final.rank))
    return CheckLine(
        name="measured more than once",
        passed=final.rank >= (1 - AGREE) * min(ranks),
        evidence=f"{shown}, the last one counts",
    )


def _numbers(source: str, problem: Problem) -> CheckLine:
    found = unnamed_numbers(source, problem)
    text = (
        f"{len(found)}: {'; '.join(found[:5])}" if found else "every number in a Triton kernel is small, round or known"
    )
    return CheckLine(name="no unnamed numbers", passed=not found, evidence=text)


def _special_cases(source: str) -> CheckLine:
    found = special_cases(source)
    text = "; ".join(found[:5]) or "no branch on a particular size, no value brought to the host"
    return CheckLine(name="no special-casing of inputs", passed=not found, evidence=text)


def _hidden(problem: Problem, final: Evaluation, dry_run: bool) -> CheckLine:
    hidden = [check for check in final.checks if check.hidden]
    if not hidden:
        if dry_run:
            about = "a dry run checks the smallest workload only"
        elif "shape_specialised" in final.labels:
            about = "sizes are fixed by the constructor"
        else:
            about = "none was checked" if problem.ranges else "no size is free"
        return CheckLine(name="right at sizes it has not seen", passed=None, evidence=about)
    passed = sum(check.passed for check in hidden)
    return CheckLine(
        name="right at sizes it has not seen",
        passed=passed == len(hidden),
        evidence=f"{passed} of {counted(len(hidden), 'comparison')} on hidden workloads",
    )
