"""From a candidate to its evaluation: correctness first, then time, and a failure ends there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...state.evaluation import Check, CompileReport, Evaluation, Status
from ...state.problem import Workload
from ...state.timing import Timing
from . import draws, hidden, layouts, tracing
from .session import CandidateFailed, Session, readable
from .stages import Stages
from .timed import time_workload
from .trial import Trial

if TYPE_CHECKING:
    from .judge import Judge

_QUICK_KINDS = ("problem", "normal", "spike", "negative")
_HIDDEN_KINDS = ("problem", "normal", "negative")


def judge_candidate(judge: "Judge", body: dict[str, Any]) -> Evaluation:
    """Everything from the fork to the verdict. Raises InfraError only for our own faults."""
    facts: dict[str, Any] = {"candidate": body["candidate"], "problem": judge.problem.id, "tier": body["tier"]}
    checks: list[Check] = []
    stages = Stages()
    status, message = Status.PASSED, ""
    session = Session(judge.server, int(body["pid"]), body["channel"], list(body["notes"]))
    try:
        trial = Trial(judge, session, body)
        facts |= _examine(judge, trial, body["tier"], checks, stages)
    except CandidateFailed as failure:
        status, message = failure.status, readable(failure.message)
        checks.extend([failure.check] if failure.check else [])
    finally:
        with stages("end"):
            session.end()
    if session.crashed:
        judge.probe()
    if status is Status.PASSED:
        status, message = _settle(judge, facts)
    if status not in (Status.PASSED, Status.UNVERIFIED) or judge.device.type == "cpu":
        facts.pop("timings", None)
    if status is Status.COMPILE_ERROR:
        # Met at a call: what was compiled ahead, if anything, was fine.
        facts["compile"] = CompileReport(ok=False, seconds=0.0, error=message)
    return Evaluation(
        status=status,
        message=message,
        checks=tuple(checks),
        notes=tuple(session.notes),
        seconds=stages.total_s,
        stage_seconds=stages.seconds,
        **facts,
    )


def _examine(judge: "Judge", trial: Trial, tier: str, checks: list[Check], stages: Stages) -> dict[str, Any]:
    """All stages in order. Raises CandidateFailed at the first failure; `checks` keeps what was seen until then."""
    with stages("prepare"):
        trial.prepare()
    with stages("check"):
        for workload, kinds in _battery(judge, tier):
            for kind in kinds:
                with stages("check: hidden shapes" if workload.name.startswith(hidden.PREFIX) else "check: draws"):
                    checks.append(_checked(trial, workload, kind))
                if not checks[-1].passed:
                    raise CandidateFailed(Status.INCORRECT_NUMERICAL, _wrong(checks[-1]))
    trial.memory.hold()
    judge.before_timing()
    with stages("time"):
        timings = tuple(time_workload(judge, trial, workload, stages) for workload in _timed(judge))
    trial.memory.hold()
    facts: dict[str, Any] = {"timings": timings, "error_class": trial.error_class, "labels": trial.labels(timings)}
    if tier in ("full", "record") and judge.device.type == "cuda":
        with stages("trace"):
            facts |= tracing.trace(trial, judge.problem.primary)
        with stages("layouts"):
            facts["labels"] += _other_layouts(judge, trial)
    return facts


def _other_layouts(judge: "Judge", trial: Trial) -> tuple[str, ...]:
    """Inputs off every alignment and as views of larger tensors: a label for each that the candidate does not answer
    rightly, and a failure where the problem says that its inputs may lie anyhow.

    Comes last: after a crash nothing more can be asked.
    """
    labels: list[str] = []
    workload, strict = judge.problem.smallest, judge.problem.layouts == "any"
    for layout, label in layouts.LABELS.items():
        try:
            check = trial.check(workload, "normal", layout)
            wrong = None if check.passed else CandidateFailed(Status.INCORRECT_NUMERICAL, check.worst, check)
        except CandidateFailed as failure:
            wrong = failure.with_traceback(None)  # its frames hold inputs, and this one would hold it
        except torch.OutOfMemoryError:
            if strict:
                raise
            trial.session.notes.append(f"{layout} inputs: not tried, they do not fit in GPU memory beside the others")
            continue
        if wrong and strict:
            raise CandidateFailed(wrong.status, f"on {layout} inputs of {workload.name}: {wrong.message}", wrong.check)
        labels += [label] if wrong else []
        if trial.session.crashed:
            break
    return tuple(labels)


def _checked(trial: Trial, workload: Workload, kind: str) -> Check:
    """One check. A failure on a hidden workload is told by its class: a message would give the shape away."""
    try:
        return trial.check(workload, kind)
    except CandidateFailed as failure:
        if not workload.name.startswith(hidden.PREFIX):
            raise
        raise CandidateFailed(failure.status, f"{failure.status} on a hidden workload") from failure


def _wrong(check: Check) -> str:
    """What failed; of a hidden workload its class only."""
    if check.hidden:
        return f"wrong on a {check.draw} draw of a hidden workload"
    return f"wrong on a {check.draw} draw of {check.workload}: {check.worst}"


def _settle(judge: "Judge", facts: dict[str, Any]) -> tuple[Status, str]:
    """What a numerically right candidate is: passed, or unverified with the reason."""
    if judge.device.type == "cpu":
        return Status.UNVERIFIED, "checked without a GPU: untimed"
    timings: tuple[Timing, ...] = facts["timings"]
    impossible = next((t for t in timings if t.candidate.median_ms < t.floor_ms), None)
    if impossible is not None:
        text = f"{impossible.candidate.median_ms:.4f} ms on {impossible.workload} is below the void bound"
        return Status.UNVERIFIED, f"{text} {impossible.floor_ms:.4f} ms"
    unstable = next((t for t in timings if not t.stable), None)
    if unstable is not None:
        return Status.UNVERIFIED, f"timing unstable on {unstable.workload}: {unstable.note}"
    return Status.PASSED, ""


def _battery(judge: "Judge", tier: str) -> Sequence[tuple[Workload, tuple[str, ...]]]:
    """Workloads and kinds of draws in the order of their cost; the primary workload last."""
    problem = judge.problem
    quick = tier == "quick"
    kinds = _QUICK_KINDS if quick else draws.KINDS
    if judge.device.type == "cpu":
        return [(problem.smallest, kinds)]
    others = sorted((w for w in problem.workloads[1:]), key=lambda w: w.input_bytes)
    smaller = [(w, ("normal",) if quick else kinds) for w in others]
    near = judge.neighbour() if quick else None
    unseen = [(near, ("normal",))] if near else [] if quick else [(w, _HIDDEN_KINDS) for w in judge.hidden_workloads()]
    return [*smaller, *unseen, (problem.primary, kinds)]


def _timed(judge: "Judge") -> list[Workload]:
    """What a speedup is taken over, at every tier: a kernel that wins on one size only is no win."""
    return [judge.problem.smallest] if judge.device.type == "cpu" else list(judge.problem.timed_workloads)
