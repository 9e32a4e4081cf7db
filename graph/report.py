"""From state and run directory to the result: best.py, report.json, report.html."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..state.channels import Context, State
from ..state.evaluation import Evaluation
from ..state.profile import Profile
from ..state.scores import geometric_mean
from ..state.spending import Spending
from ..state.timing import Baselines
from ..state.trajectory import Audit, CheckLine, Result, Row, TrajectoryEntry
from .checklist import checklist
from .diagnosis import bottleneck, product_flops
from .html import render_html
from .keeping import ranked, sol_fraction, target_gap
from .run_directory import RunDirectory, parsed
from .services import Services
from .stopping import stop_rules


def write_report(state: State, services: Services, context: Context, complete: bool = True) -> Result:
    """Writes the run's files and returns the result.

    `complete=False` is for a run that was cut short: its best is what passed the quick tier so far, and says so.
    """
    result = make_result(state, services, context, complete)
    source = services.run.candidate(result.best).source if result.best else ""
    if source:
        services.run.write_text("best.py", source)
    else:
        (services.run.path / "best.py").unlink(missing_ok=True)  # From before an interruption, and not verified since.
    services.run.write_text("report.html", render_html(result, source))
    services.run.write_record("report", result)
    return result


def make_result(state: State, services: Services, context: Context, complete: bool) -> Result:
    """Everything that is known, as one record."""
    rows = services.run.rows()
    kept = ranked(rows, state.dry_run)
    best = state.winner or ("" if complete or not kept else kept[0].id)
    evaluation = _most_thorough(services.run, best) if best else None
    full = services.run.evaluation(best, "full") if best else None
    problem = services.problem
    measured = evaluation if evaluation is not None and not state.dry_run else None
    estimate = evaluation.estimate if evaluation is not None and state.dry_run else None
    timing = measured.primary if measured else None
    baselines = services.run.read_record("baselines", Baselines)
    primary = problem.primary.name
    return Result(
        problem=problem.name,
        problem_id=problem.id,
        problem_path=problem.path,
        run_dir=str(services.run.path),
        outcome="nothing" if evaluation is None else "estimated" if state.dry_run else "verified",
        stop_reason=state.stop_reason or ("" if complete else "interrupted"),
        stop_rules=stop_rules(services.progress(state, context, kept[0] if kept else None)) if state.quotas else (),
        complete=complete,
        best=best or None,
        best_path=str(services.run.path / "best.py") if best else None,
        language=next((row.language for row in rows if row.id == best), None),
        speedup=measured.score if measured else None,
        estimated_sol_fraction=estimate.sol_fraction if estimate else None,
        cross_validation_speedup=full.score if full and not state.dry_run else None,
        speedup_over=speedups(measured, baselines) if measured and baselines else {},
        verdict=timing.verdict if timing else "",
        ms=timing.candidate.median_ms if timing else estimate.ms if estimate else None,
        baseline_name=timing.baseline_name if timing else "",
        baseline_ms=timing.baseline.median_ms if timing else None,
        eager_ms=baselines.ms("eager", primary) if baselines else None,
        compile_ms=compile_ms(baselines, primary) if baselines else None,
        best_ms_by_language=_best_by_language(kept),
        sol_fraction=sol_fraction(measured) if measured else None,
        custom_share=measured.custom_share if measured else None,
        error_class=evaluation.error_class if evaluation else "",
        precision=problem.precision,
        labels=evaluation.labels if evaluation else (),
        notes=(*state.notes, *(evaluation.notes if evaluation else ())),
        plan=state.plan_summary,
        timings=measured.timings if measured else (),
        checks=evaluation.checks if evaluation else (),
        checklist=_checklist(services, best, evaluation, state.dry_run) if best and evaluation else (),
        audit=_audit(state, services, context),
        evidence=evaluation.evidence if evaluation else None,
        bottleneck=_bottleneck(services, evaluation) if evaluation else "",
        baselines=baselines.entries if baselines else (),
        target=target_gap(problem.target, evaluation, services.device) if evaluation else None,
        tried=len(rows),
        statuses=dict(sorted(Counter(row.status.value for row in rows).items())),
        trajectory=tuple(_entry(row, services.run) for row in rows),
        seconds=state.seconds_used,
        baseline_seconds=baselines.measured_seconds if baselines else 0.0,
        dry_run=state.dry_run,
        device=services.device,
        models=_models(services, rows, context, state.dry_run),
        warpsmith_version=__version__,
        settings=context.model_dump(mode="json"),
    )


def _checklist(services: Services, best: str, final: Evaluation, dry_run: bool) -> tuple[CheckLine, ...]:
    kinds = ("quick", "full")
    earlier = [found for kind in kinds if (found := services.run.evaluation(best, kind)) and found is not final]
    return checklist(services.problem, services.run.candidate(best).source, final, earlier, dry_run)


def _bottleneck(services: Services, evaluation: Evaluation) -> str:
    counters = services.run.read_record(f"profile-{evaluation.candidate}", Profile)
    return bottleneck(evaluation, counters, services.device, product_flops(services.plan))


def _audit(state: State, services: Services, context: Context) -> Audit | None:
    """What a stage below `hardened` would have handed out: its best by the quick verdict."""
    first = next(iter(state.pool), None)
    if context.stage == "hardened" or first is None:
        return None
    found = services.run.evaluation(first.id, "record")
    if found is None:
        return None
    return Audit(
        stage=context.stage,
        candidate=first.id,
        claimed=first.rank,
        status=found.status,
        message=found.message,
        measured=found.rank,
    )


def _models(services: Services, rows: Sequence[Row], context: Context, dry_run: bool) -> Spending | None:
    if services.meter is None:
        return None
    from .spending import spending

    found = spending(services.meter.recorded.store.entries(), rows, dry_run)
    return found.model_copy(update={"token_budget": context.tokens, "stopped": services.meter.stopped})


def _most_thorough(run: RunDirectory, candidate_id: str) -> Evaluation | None:
    """The final check where there was one, else cross-validation, else the first verdict."""
    found = (run.evaluation(candidate_id, kind) for kind in ("record", "full", "quick"))
    return next((evaluation for evaluation in found if evaluation is not None), None)


def compile_ms(baselines: Baselines, workload: str) -> float | None:
    """The better of torch.compile's modes that count (CUDA graphs do not)."""
    times = (baselines.ms(name, workload) for name in ("compile", "max-autotune"))
    return min((ms for ms in times if ms is not None), default=None)


def speedups(evaluation: Evaluation, baselines: Baselines) -> dict[str, float]:
    """Geometric means over the workloads: `best` from the interleaved pairs, `eager` and `compile` from the baselines.

    A baseline that was not timed on every workload is left out.
    """
    found = {"best": evaluation.score}
    timings = evaluation.timings
    for name, times in (
        ("eager", [baselines.ms("eager", timing.workload) for timing in timings]),
        ("compile", [compile_ms(baselines, timing.workload) for timing in timings]),
    ):
        ratios = [ms / timing.candidate.median_ms for ms, timing in zip(times, timings, strict=True) if ms is not None]
        if ratios and len(ratios) == len(timings):
            found[name] = geometric_mean(ratios)
    return found


def _best_by_language(kept: Sequence[Row]) -> dict[str, float]:
    best: dict[str, float] = {}
    for row in kept:
        if row.ms is not None:
            best[row.language] = min(row.ms, best.get(row.language, row.ms))
    return best


def _entry(row: Row, run: RunDirectory) -> TrajectoryEntry:
    candidate, evaluation = run.candidate(row.id), run.evaluation(row.id)
    return TrajectoryEntry(
        **row.model_dump(),
        slots=candidate.slots,
        note=candidate.note,
        prompt=candidate.prompt,
        message=evaluation.message if evaluation else "",
    )


def read_result(run_dir: Path) -> Result | None:
    """The result of a finished run, None where there is no report yet. Raises InvalidInput for a broken one."""
    return parsed(run_dir / "report.json", Result.model_validate_json)
