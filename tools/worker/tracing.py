"""Which kernels really ran, and the candidate's own share of GPU time. Evidence from inside: it labels only."""

from typing import TYPE_CHECKING, Any

from ...state.problem import Workload
from ..kernel_names import credited_names, custom_share
from .session import CandidateFailed

if TYPE_CHECKING:
    from .trial import Trial


def trace(trial: "Trial", workload: Workload) -> dict[str, Any]:
    """Kernel times of one call by name (ms), and the share of the candidate's own kernels."""
    judge = trial.judge
    expected = judge.expectation(workload, "problem", 0, "timed")
    bench = trial.map(workload, expected)
    bench.write(judge.inputs(workload, "problem", 0))
    try:
        reply = trial.session.ask("trace", 60.0, instance="timed")
    except CandidateFailed:
        return {}  # no evidence is no share: None, and the report says so
    kernels = {str(k)[:200]: float(v) for k, v in list(reply.get("kernels", {}).items())[:200]}
    return {"kernels": kernels, "custom_share": custom_share(kernels, credited_names(trial.source, ()))}
