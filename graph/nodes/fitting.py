"""The node after the search: kernels for the other sizes of the problem, where the best one falls short."""

from langgraph.runtime import Runtime

from ...state.candidate import Candidate
from ...state.channels import Context, EvaluateTask, ProposeTask, State, Update, WriterRequest
from ...state.evaluation import Evaluation
from ...state.problem import Workload
from ...state.trajectory import Row
from ..fit import falls_short, plan_at
from ..keeping import pool_of, ranked
from ..search.strategy import languages_of, shared_out
from ..services import Services
from .combining import OUT_OF_TIME, most_thorough
from .loop import make_row
from .start import context_of, services_of, tell


def fit_sizes(state: State, runtime: Runtime[Context]) -> Update:
    """Asks for kernels by the sizes of other workloads, and judges them on all.

    The search ranks by all workloads and proposes by the main one's sizes: what is best for another may never have been
    proposed, or was given up before that other was timed. A kernel from here wins alone or as one of two in one file.
    It is no part of the budget, as those are none. Models and people are not asked: they were told all sizes before.
    """
    services, context = services_of(state.run_dir, runtime), context_of(runtime)
    best = most_thorough(state.best, services) if state.best else None
    asked = context.stage == "hardened" and not state.dry_run and state.stop_reason not in OUT_OF_TIME
    if not asked or best is None or services.meter is not None or context.writer == "human":
        return {}
    rows: dict[str, Row] = {}
    for place, workload in enumerate(falls_short(services.problem, best)):
        for candidate in _proposed(state, services, context, workload, place):
            evaluation = services.run.evaluation(candidate.id, "full")
            if evaluation is None:
                services.check_stopping()
                evaluation = services.toolbox.evaluate(candidate, "full")
                services.run.add_evaluation(evaluation, "full")
            task = EvaluateTask(run_dir=state.run_dir, candidate=candidate.id, phase=state.phase, round=state.round)
            row = rows[candidate.id] = make_row(candidate, evaluation, task)
            told = {"candidate": row.id, "status": row.status.value, "rank": row.rank, "best": state.best_rank}
            tell(services, runtime, "fitted", workload=workload.name, **told)
    # One that was given up early has a row already: this one takes its place.
    services.run.add_rows(list(rows.values()))
    kept = ranked((*(row for row in state.pool if row.id not in rows), *rows.values()), state.dry_run)
    update: Update = {"tried": tuple(dict.fromkeys((*state.tried, *rows))), "pool": pool_of(kept)}
    if kept and kept[0].rank > state.best_rank:
        update |= {"best": kept[0].id, "best_rank": kept[0].rank}
    return update


def _proposed(state: State, services: Services, context: Context, workload: Workload, place: int) -> list[Candidate]:
    """What the writers propose for a workload's sizes and was not timed on it yet."""
    plan = plan_at(services.plan, workload)
    if plan is None:
        return []
    timed = frozenset(id for id in state.tried if _is_timed(most_thorough(id, services), workload))
    found: list[Candidate] = []
    languages = languages_of(context)
    for language, wanted in zip(languages, shared_out(context.fits, len(languages)), strict=True):
        writer = services.writers.get(language)
        if writer is None or not wanted:
            continue
        # By the state: a run that was cut off in this node asks the same again.
        request = WriterRequest(language=language, directive="fit", n=wanted, rng_seed=context.seed + place)
        task = ProposeTask(run_dir=state.run_dir, request=request, round=state.round, known=len(state.tried))
        brief = services.brief(task).model_copy(update={"plan": plan, "tried": timed})
        found += writer.propose(brief, wanted)[:wanted]
    for candidate in found:
        services.run.add_candidate(candidate.model_copy(update={"asked": f"fit {workload.name}"}))
    return [services.run.candidate(candidate.id) for candidate in found]  # One that was given up was asked for before.


def _is_timed(evaluation: Evaluation | None, workload: Workload) -> bool:
    return evaluation is not None and any(timing.workload == workload.name for timing in evaluation.timings)
