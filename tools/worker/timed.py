"""Times a candidate on one workload: pairs against the best baseline."""

import time
from statistics import median
from typing import TYPE_CHECKING

from ...state.evaluation import Status
from ...state.problem import Workload
from ...state.timing import Timing
from .. import statistics
from . import attempts, conditions, pairs, wall_clock
from .attempts import Attempts
from .session import CandidateFailed
from .stages import Stages
from .trial import Trial
from .verifier import Verifier

if TYPE_CHECKING:
    from .judge import Judge

_LEAST_MS = 1e-4
_SLOWED = 1.25
"""How much slower than alone a baseline may run beside a candidate."""
_SLOWED_MS = 0.003
_COUNTED = 1.1
"""How much slower than alone a baseline counts at most."""
_LAUNCH_BOUND = 1.5
"""How much longer than the GPU the host takes for a call that is bound by it; its time is taken with cold caches."""
_QUICK_PAIRS_BESIDE = 20
"""On workloads other than the main one: the quick tier ranks, and later tiers time all of them in full."""
_QUICK_ENOUGH = 30
"""Pairs of the main workload after which that tier knows enough, if the ratio is settled."""
_BURSTS = 3
_BURST_DRAWS = 10_000_000
"""Draws of bursts are numbered far from all others."""


def time_workload(judge: "Judge", trial: Trial, workload: Workload, stages: Stages) -> Timing:
    """Raises CandidateFailed if a timed call is wrong or the clocks disagree."""
    expected = judge.expectation(workload, "problem", 0, "timed")
    name = trial.baseline or judge.baselines.name(workload)
    gpu = judge.device.type == "cuda"
    plan = _plan(trial, workload, primary=workload == judge.problem.primary, gpu=gpu)
    duel = pairs.Duel(
        workload=workload.name,
        session=trial.session,
        bench=trial.map(workload, expected),
        own=judge.baselines.calls(name, workload),
        expected=expected,
        draw=lambda number: judge.timed_inputs(workload, number),
        verify=Verifier(judge, workload.name, expected, parts(plan)).verify,
        flush=judge.flush,
        stages=stages,
    )
    judge.make_room()
    before, started = conditions.read(judge.device), time.monotonic()
    tried = Attempts()
    for attempt in range(attempts.MOST if gpu else 1):
        found = pairs.run_pairs(duel, plan, attempt)
        candidate_ms, baseline_ms = (_without(judge.event_ms, side) for side in (found.candidate_ms, found.baseline_ms))
        slowed = _slowed(judge.baselines.alone_ms.get((name, workload.name)), median(baseline_ms))
        tried.add(candidate_ms, baseline_ms, bool(slowed))
        if (tried.stable and not slowed) or time.monotonic() - started > plan.most_s:
            break
    candidate_ms, baseline_ms = tried.candidate_ms, tried.baseline_ms
    if slowed and gpu:
        raise CandidateFailed(Status.UNVERIFIED, f"on {workload.name} the baseline {slowed}")
    with stages("time: wall clock over bursts"):
        _hold_wall_clock(judge, trial, duel, plan, median(candidate_ms))
    notes = []
    if median(found.host_ms) > _LAUNCH_BOUND * median(candidate_ms):
        notes.append(f"launch-bound: the host needs {median(found.host_ms) * 1e3:.0f} us a call")
    stable = not gpu or tried.stable
    if not stable:
        notes.insert(0, f"{tried.scatter()}; {conditions.cause(before, judge.device)}")
    if gpu and not trial.identity:
        baseline_ms = _as_alone(judge.baselines.alone_ms.get((name, workload.name)), baseline_ms)
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


def parts(plan: pairs.Plan) -> tuple[int, ...]:
    """Numbers of calls to audit one of, through all attempts that may follow: the last one may be what counts."""
    return plan.parts * attempts.MOST


def _plan(trial: Trial, workload: Workload, primary: bool, gpu: bool) -> pairs.Plan:
    deadline_s = trial.call_s(workload)
    if not gpu:
        return pairs.Plan(pairs=4, warm_ups=2, deadline_s=deadline_s)
    if trial.quick and not primary:
        return pairs.Plan(pairs=_QUICK_PAIRS_BESIDE, deadline_s=deadline_s)
    enough = _QUICK_ENOUGH if trial.quick and not trial.identity else None
    return pairs.Plan(deadline_s=deadline_s, enough=enough, give_up_ms=trial.give_up_ms if primary else None)


def _without(event_ms: float, times: list[float]) -> list[float]:
    """Times less what a pair of events reads with nothing between them; a microsecond matters where calls take five."""
    return [max(t - event_ms, _LEAST_MS) for t in times]


def _slowed(alone_ms: float | None, beside_ms: float) -> str:
    """How a baseline ran beside a candidate, if that is slower than alone: then nothing was measured."""
    if alone_ms is None or beside_ms <= _SLOWED * alone_ms + _SLOWED_MS:
        return ""
    return f"took {beside_ms:.4f} ms beside this candidate and {alone_ms:.4f} ms alone: something slows the GPU"


def _as_alone(alone_ms: float | None, beside_ms: list[float]) -> list[float]:
    """Times of a baseline beside a candidate, scaled to what counts: slowing the GPU for it gains next to nothing."""
    if alone_ms is None:
        return beside_ms
    share = min(1.0, (_COUNTED * alone_ms + _SLOWED_MS) / median(beside_ms))
    return [share * t for t in beside_ms]


def _hold_wall_clock(judge: "Judge", trial: Trial, duel: pairs.Duel, plan: pairs.Plan, claimed_ms: float) -> None:
    """The judge's wall clock over bursts of calls must be explained by the time that the child claims for one.

    What a burst costs beside its calls is known from the reference's own run in a child. Nothing that the child says
    of its host's time explains anything.
    """
    workload, calls = duel.workload, duel.bench.sets
    changed_bytes = duel.bench.input_layout.size_bytes if duel.expected.mutated else 0
    copied_bytes = calls * (duel.bench.output_layout.size_bytes + changed_bytes)
    beside = []
    for attempt in range(_BURSTS if judge.device.type == "cuda" else 1):
        wall_ms = pairs.burst_ms(duel, plan, _BURST_DRAWS + attempt * calls)
        beside.append(max(0.0, wall_ms - calls * claimed_ms))
        passed_ms = (wall_ms - wall_clock.hop_ms(judge.hop_ms.get(workload), copied_bytes)) / calls
        explained = wall_clock.explains(claimed_ms, duel.own.host_ms, passed_ms)
        if explained and not trial.identity:
            return
    if trial.identity:
        judge.hop_ms[workload] = min(beside)
    elif judge.device.type == "cuda":
        passed_ms -= wall_clock.rearranging_ms(duel.described, duel.bench.output_layout, judge.device)
        if wall_clock.explains(claimed_ms, duel.own.host_ms, passed_ms):
            return
        text = (
            f"clocks disagree on {workload}: {passed_ms:.3f} ms a call passed outside, {claimed_ms:.3f} ms claimed; "
            "work runs where it is not timed, or the host needs that long to launch a call"
        )
        raise CandidateFailed(Status.UNVERIFIED, text)
