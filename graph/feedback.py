"""The five fields that a writer hears about a candidate. Of hidden workloads it hears classes, never sizes."""

from math import hypot
from typing import NamedTuple

from ..state.evaluation import Check, Evaluation, Status
from ..state.feedback import Feedback, Trend
from ..state.timing import Sample
from ..state.trajectory import TargetGap

NOISE = 0.01
"""Least relative difference of two speedups that is more than noise, however narrow their intervals."""
DIGEST_LENGTH = 400
PLACES = {
    "whole": "all over the output",
    "tail": "only at the end of a dimension (tail)",
    "border": "only at the first and last index of a dimension",
    "tile_edge": "only at tile edges",
    "one_channel": "only in one channel",
    "one_element": "only in one element",
    "scattered": "only in scattered elements",
}


class Goal(NamedTuple):
    """What a candidate is held against besides its parent."""

    best_ms: float | None = None
    """The best candidate's time on the primary workload; an estimate in a dry run."""
    target: TargetGap | None = None
    """This candidate against the problem's published time, where there is one."""


def make_feedback(
    evaluation: Evaluation, parent: Evaluation | None, best_rank: float, bottleneck: str, goal: Goal | None = None
) -> Feedback:
    """Feedback on one evaluation; `best_rank` is the best speedup so far, this one counted."""
    given = goal or Goal()
    return Feedback(
        candidate=evaluation.candidate,
        status="below_target" if _short(evaluation, given.target) else evaluation.status,
        error_digest=_error_digest(evaluation),
        time=_time(evaluation, best_rank, given),
        trend=_trend(evaluation, parent),
        bottleneck=bottleneck,
    )


def _short(evaluation: Evaluation, target: TargetGap | None) -> bool:
    """Right, and slower than the baseline or than a target that can be compared with."""
    if evaluation.status is not Status.PASSED:
        return False
    return evaluation.rank < 1 or (target is not None and target.comparable and not target.beaten)


def _error_digest(evaluation: Evaluation) -> str:
    if evaluation.status is Status.PASSED or evaluation.rank > 0:
        return ""
    failed = next((check for check in evaluation.checks if not check.passed), None)
    text = f"{evaluation.status} on {_where(failed)}" if failed else evaluation.message
    return text[:DIGEST_LENGTH]


def _where(check: Check) -> str:
    place = f", {PLACES[check.place]}" if check.place else ""
    if check.hidden:
        return f"a hidden workload{place}"
    return f"workload {check.workload}, draw {check.draw}{place}: {check.worst}"


def _time(evaluation: Evaluation, best_rank: float, goal: Goal) -> str:
    """This time, the best time and the gap: `0.62 ms, 1.6x, 40% of the speed of light; best 0.5 ms, 2x; 25% slower`."""
    if evaluation.rank <= 0 or best_rank <= 0:
        return ""
    timing, estimate = evaluation.primary, evaluation.estimate
    own, reached = "untimed", ""
    if timing is not None:
        own, reached = f"{timing.candidate.median_ms:.4g} ms", f", {timing.sol_fraction:.0%} of the speed of light"
    elif estimate is not None:
        own = f"about {estimate.ms:.4g} ms"
    best = f"{goal.best_ms:.4g} ms, " if goal.best_ms is not None else ""
    gap = best_rank / evaluation.rank - 1
    parts = [
        f"{own}, {evaluation.rank:.3g}x{reached}",
        f"best {best}{best_rank:.3g}x",
        "the best so far" if gap <= 0 else f"{gap:.1%} slower than it",
    ]
    return "; ".join([*parts, *_against(goal.target)])


def _against(target: TargetGap | None) -> list[str]:
    if target is None or target.gap is None:
        return []
    side = f"{abs(target.gap):.1%} {'faster' if target.gap < 0 else 'slower'}"
    return [f"target {target.target.ms:.4g} ms: {side}{'' if target.comparable else ', on another GPU'}"]


def _trend(evaluation: Evaluation, parent: Evaluation | None) -> Trend:
    if evaluation.rank <= 0:
        return "failed"
    if parent is None or parent.rank <= 0:
        return "first"
    change = evaluation.rank / parent.rank - 1
    if abs(change) <= max(NOISE, _noise(evaluation, parent)):
        return "level"
    return "better" if change > 0 else "worse"


def _noise(one: Evaluation, other: Evaluation) -> float:
    """By how much the ratio of two measured speedups may be off: their samples' 95% intervals, taken together."""
    timings = [evaluation.primary for evaluation in (one, other)]
    samples = [sample for timing in timings if timing is not None for sample in (timing.candidate, timing.baseline)]
    return hypot(*(_half_width(sample) for sample in samples))


def _half_width(sample: Sample) -> float:
    """Half of the 95% interval of the median, over the median."""
    return (sample.high_ms - sample.low_ms) / 2 / sample.median_ms
