"""The reference judged as if it were a candidate: what the harness itself adds, and whether it can be trusted now."""

from typing import TYPE_CHECKING, Any

from . import verdict

if TYPE_CHECKING:
    from .judge import Judge


def measure(judge: "Judge", body: dict[str, Any]) -> dict[str, Any]:
    """Ratio of the reference's time in the judge to its time in a child, and what a hop costs on the wall clock."""
    found = verdict.judge_candidate(judge, {**body, "baseline": "eager", "identity": True})
    timing = found.timings[0] if found.timings else None
    if timing is None:
        return {"ratio": None, "status": str(found.status), "text": found.message}
    return {
        "ratio": timing.speedup,
        "ms": timing.candidate.median_ms,
        "status": str(found.status),
        "text": found.message,
        "stage_seconds": found.stage_seconds,
        "hop_ms": judge.hop_ms,
    }
