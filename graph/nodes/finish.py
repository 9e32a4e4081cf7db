"""Nodes between and after the phases: seeds, cross-validation, the final check, the report."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from langgraph.runtime import Runtime

from ...state.channels import Context, State, Update
from ...state.errors import WarpsmithError
from ...state.evaluation import Evaluation
from ...state.trajectory import Phase, Result
from ..checklist import fast_at_one_size_only
from ..keeping import behind, keepable
from ..library import Library, LibraryEntry, structure_key
from ..report import write_report
from ..search import next_phase
from ..services import Services, close_services
from .start import context_of, services_of, tell

MOST_ASIDE = 2
"""Kernels fast at one size only, or behind after all, that are set aside in search of one that is not: each costs
another validation."""


def select_seeds(state: State, runtime: Runtime[Context]) -> Update:
    """Ends a phase and chooses what the next one starts from."""
    services, context = services_of(state.run_dir, runtime), context_of(runtime)
    phase: Phase = next_phase(state) or state.phase
    seeds = services.strategy.seeds(services.standing(state, context), phase)
    tell(services, runtime, "phase_over", phase=state.phase, next=phase, seeds=seeds)
    return {
        "phase": phase,
        "seeds": seeds,
        "rounds_without_gain": 0,
        "phase_over": False,
    }


def cross_validate(state: State, runtime: Runtime[Context]) -> Update:
    """Judges the best candidates on every workload, until as many as asked for have passed.

    One that is behind on the primary workload comes after those that are not, whatever it gains elsewhere. One that is
    fast at one size only is set aside for another that is not; without such a one it is shipped and the checklist says
    what it is. Below stage `hardened` the first verdict is all there is.
    """
    services, context = services_of(state.run_dir, runtime), context_of(runtime)
    left = [row for row in state.pool if row.id not in state.rejected]
    if context.stage != "hardened":
        return {"finalists": tuple(row.id for row in left[:1])}
    passed: list[tuple[bool, bool, float, str]] = []
    rejected = list(state.rejected)
    aside = 0
    for row in sorted(left, key=lambda row: row.behind):
        if len(passed) - min(aside, MOST_ASIDE) >= context.finalists:
            break
        id = row.id
        services.check_stopping()
        evaluation = services.run.evaluation(id, "full") or _dry_verdict(services.run.evaluation(id))
        if evaluation is None:
            evaluation = services.toolbox.evaluate(services.run.candidate(id), "full")
            services.run.add_evaluation(evaluation, "full")
        tell(services, runtime, "cross_validated", candidate=id, status=evaluation.status.value, rank=evaluation.rank)
        if keepable(evaluation, state.dry_run):
            one_size = fast_at_one_size_only(evaluation.timings)
            aside += one_size or (behind(evaluation) and not row.behind)
            passed.append((behind(evaluation), one_size, -evaluation.rank, id))
        else:
            rejected.append(id)
    return {"finalists": tuple(id for *_, id in sorted(passed)), "rejected": tuple(rejected)}


def final_check(state: State, runtime: Runtime[Context]) -> Update:
    """Judges the first finalist once more and at its most thorough, from its file on disk.

    This verdict is the one that is reported: the earlier ones chose the winner, and so flatter it.
    """
    services = services_of(state.run_dir, runtime)
    services.check_stopping()
    id, *others = state.finalists
    evaluation = services.harness.evaluate(services.problem, services.run.candidate(id), "record")
    services.run.add_evaluation(evaluation, "record")
    tell(services, runtime, "final_checked", candidate=id, status=evaluation.status.value, rank=evaluation.rank)
    if not keepable(evaluation, state.dry_run):
        if context_of(runtime).stage != "hardened":  # This was an audit of what the stage accepts: nothing comes after.
            return {"finalists": (), "rejected": tuple(row.id for row in state.pool)}
        return {"finalists": tuple(others), "rejected": (*state.rejected, id)}
    if evaluation.evidence is not None and evaluation.evidence.profiler is not None:
        # The verdict's own profiling run: nothing is run again.
        counters = services.harness.profile(services.problem, services.run.candidate(id))
        services.run.write_record(f"profile-{id}", counters)
        tell(services, runtime, "profiled", candidate=id, kernels=len(counters.kernels), reason=counters.reason)
    return {
        "winner": id,
        "outcome": "estimated" if state.dry_run else "verified",
        "speedup": None if state.dry_run else evaluation.rank,
    }


def report(state: State, runtime: Runtime[Context]) -> Update:
    """Writes best.py, report.json and report.html, and closes what the run had open."""
    services = services_of(state.run_dir, runtime)
    seconds = state.seconds_used + services.lap()
    state = state.model_copy(update={"seconds_used": seconds})
    result = write_report(state, services, context_of(runtime))
    if result.outcome == "verified" and result.best and context_of(runtime).library:
        try:
            _keep_in_library(result, services, Library(Path(str(context_of(runtime).library))))
        except (WarpsmithError, OSError, sqlite3.Error) as error:  # The result stands, and is written already.
            notes = (*state.notes, f"not added to the library: {error}")
            result = write_report(state.model_copy(update={"notes": notes}), services, context_of(runtime))
    tell(
        services,
        runtime,
        "finished",
        outcome=result.outcome,
        winner=result.best,
        speedup=result.speedup,
        estimated_sol_fraction=result.estimated_sol_fraction,
        stop_reason=result.stop_reason,
        tried=result.tried,
        seconds=round(seconds, 1),
        run_dir=result.run_dir,
    )
    close_services(state.run_dir)
    return {"seconds_used": seconds}


def _keep_in_library(result: Result, services: Services, library: Library) -> None:
    """A verified kernel, for later runs on problems of this structure."""
    structure = structure_key(services.plan)
    if not structure or result.device is None or result.best is None:
        return
    library.add(
        LibraryEntry(
            candidate=services.run.candidate(result.best),
            structure=structure,
            gpu=result.device.name,
            problem=result.problem,
            problem_id=result.problem_id,
            workloads={timing.workload: timing.candidate.median_ms for timing in result.timings},
            speedup=result.speedup or 0.0,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            warpsmith_version=result.warpsmith_version,
        )
    )


def _dry_verdict(first: Evaluation | None) -> Evaluation | None:
    """In a dry run all tiers are one, so that the first verdict holds here too."""
    return first if first is not None and first.tier == "dry" else None
