"""The five fields that a writer hears about a candidate. Hidden workloads are named by class only."""

from ..state.evaluation import Evaluation, Status
from ..state.feedback import Feedback, Trend

NOISE = 0.01
"""Relative difference of two speedups that counts as level."""
DIGEST_LENGTH = 400


def make_feedback(evaluation: Evaluation, parent: Evaluation | None, best_rank: float, bottleneck: str) -> Feedback:
    """Feedback on one evaluation; `best_rank` is the best speedup so far."""
    below = evaluation.status is Status.PASSED and evaluation.rank < 1
    return Feedback(
        candidate=evaluation.candidate,
        status="below_target" if below else evaluation.status,
        error_digest=_error_digest(evaluation),
        time=_time(evaluation, best_rank),
        trend=_trend(evaluation, parent),
        bottleneck=bottleneck,
    )


def _error_digest(evaluation: Evaluation) -> str:
    if evaluation.status is Status.PASSED or evaluation.rank > 0:
        return ""
    failed = next((check for check in evaluation.checks if not check.passed), None)
    if failed is None:
        return evaluation.message[:DIGEST_LENGTH]
    where = "a hidden workload" if failed.hidden else f"workload {failed.workload}, draw {failed.draw}: {failed.worst}"
    return f"{evaluation.status} on {where}"[:DIGEST_LENGTH]


def _time(evaluation: Evaluation, best_rank: float) -> str:
    if evaluation.rank <= 0 or best_rank <= 0:
        return ""
    timing = evaluation.primary
    if timing is not None:
        own = f"{timing.candidate.median_ms:.4g} ms"
    else:
        own = f"about {evaluation.estimate.ms:.4g} ms" if evaluation.estimate else "untimed"
    gap = best_rank / evaluation.rank - 1
    distance = "the best so far" if gap <= 0 else f"{gap:.1%} slower than it"
    return f"{own}, {evaluation.rank:.3g}x; best {best_rank:.3g}x; {distance}"


def _trend(evaluation: Evaluation, parent: Evaluation | None) -> Trend:
    if evaluation.rank <= 0:
        return "failed"
    if parent is None or parent.rank <= 0:
        return "first"
    change = evaluation.rank / parent.rank - 1
    if abs(change) <= NOISE:
        return "level"
    return "better" if change > 0 else "worse"
