"""Times a candidate on one workload: pairs against the best baseline."""

from statistics import median
from typing import TYPE_CHECKING

from ...state.evaluation import Status
from ...state.problem import Workload
from ...state.timing import Timing
from .. import statistics
from . import conditions, pairs
from .session import CandidateFailed
from .trial import Trial
from .verifier import Verifier

if TYPE_CHECKING:
    from .judge import Judge

_MEASUREMENTS = 4
"""The first and up to three more when the spread is too large."""
_LEAST_MS = 1e-4
_WALL_SLACK_MS = 0.5
_WALL_SHARE = 0.25


def time_workload(judge: "Judge", trial: Trial, workload: Workload) -> Timing:
    """Raises CandidateFailed if a timed call is wrong or the clocks disagree."""
    expected = judge.expectation(workload, "problem", 0, "timed")
    name = trial.baseline or judge.best_baseline.get(workload.name, "eager")
    gpu = judge.device.type == "cuda"
    deadline_s = trial.call_s(workload)
    give_up_ms = trial.give_up_ms if workload == judge.problem.primary else None
    plan = (
        pairs.Plan(deadline_s=deadline_s, give_up_ms=give_up_ms)
        if gpu
        else pairs.Plan(pairs=4, warm_ups=2, deadline_s=deadline_s)
    )
    duel = pairs.Duel(
        session=trial.session,
        bench=trial.map(workload, expected),
        own=judge.own(name, workload),
        expected=expected,
        draw=lambda number: judge.inputs(workload, "problem", number),
        verify=Verifier(judge, workload.name, expected, plan.pairs).verify,
        flush=judge.flush,
    )
    before = conditions.read(judge.device)
    for attempt in range(_MEASUREMENTS if gpu else 1):
        found = pairs.run_pairs(duel, plan, attempt)
        if statistics.stable(found.candidate_ms):
            break
    _hold_wall_clock(judge, trial, workload, found)
    candidate_ms, baseline_ms = (_without(judge.event_ms, side) for side in (found.candidate_ms, found.baseline_ms))
    notes = []
    if median(found.host_ms) > median(candidate_ms):
        notes.append(f"launch-bound: the host needs {median(found.host_ms) * 1e3:.0f} us a call")
    spread = statistics.spread(candidate_ms)
    stable = not gpu or statistics.stable(candidate_ms)
    if not stable:
        notes.insert(
            0, f"spread {spread:.1%} after {_MEASUREMENTS} measurements; {conditions.cause(before, judge.device)}"
        )
    candidate, baseline = statistics.sample(candidate_ms), statistics.sample(baseline_ms)
    bounds = judge.bounds.get(workload.name, {})
    return Timing(
        workload=workload.name,
        candidate=candidate,
        baseline=baseline,
        baseline_name=name,
        speedup=baseline.median_ms / candidate.median_ms,
        verdict=statistics.paired_verdict(baseline_ms, candidate_ms),
        stable=stable,
        note="; ".join(notes),
        wall_ms=median(found.wall_ms),
        first_call_ms=found.first_call_ms,
        setup_ms=trial.setup_ms,
        floor_ms=bounds.get("floor_ms", 0.0),
        sol_ms=bounds.get("sol_ms", 0.0),
        sm_clock_mhz=conditions.read(judge.device).sm_clock_mhz,
    )


def _without(event_ms: float, times: list[float]) -> list[float]:
    """Times less what a pair of events reads with nothing between them; a microsecond matters where calls take five."""
    return [max(t - event_ms, _LEAST_MS) for t in times]


def _hold_wall_clock(judge: "Judge", trial: Trial, workload: Workload, found: pairs.Pairs) -> None:
    """The judge's wall clock over the warm-up calls, which have no lead, must be explained by what the child claims.

    What a hop and the copy of the output cost is known from the reference's own run in a child. A call that claims
    far less time than passed worked while its events did not look.
    """
    if trial.identity:
        outside = [wall - inside for wall, inside in zip(found.warm_wall_ms, found.warm_ms, strict=True)]
        judge.hop_ms[workload.name] = min(outside)
        return
    hop_ms = judge.hop_ms.get(workload.name)
    if hop_ms is None or not found.warm_wall_ms:
        return
    claimed = median(found.candidate_ms)
    passed = min(found.warm_wall_ms) - hop_ms
    if passed > claimed * (1 + _WALL_SHARE) + _WALL_SLACK_MS + min(found.warm_host_ms):
        text = f"clocks disagree on {workload.name}: {passed:.3f} ms passed outside, {claimed:.3f} ms claimed inside"
        raise CandidateFailed(Status.UNVERIFIED, text)
