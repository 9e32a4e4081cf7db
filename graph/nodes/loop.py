"""Nodes of the loop that explore, rewrite and tune share: open a round, propose, evaluate, learn, record."""

from dataclasses import replace
from pathlib import Path

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...state.base import digest
from ...state.brief import Brief
from ...state.candidate import Candidate
from ...state.channels import Context, Diagnosis, EvaluateTask, ProposeTask, State, Update
from ...state.errors import InfraError
from ...state.evaluation import Evaluation, Status
from ...state.experience import Experience
from ...state.profile import Profile
from ...state.trajectory import Row
from ...sub_agents.autotune import frozen
from ..diagnosis import bottleneck, product_flops
from ..experience import confirms, needs_confirming
from ..feedback import Goal, make_feedback
from ..keeping import behind, ranked, sol_fraction, target_gap
from ..library import Library, offered
from ..rounds import after_round
from ..search import quota_left
from ..services import Services
from ..spending import round_spending
from ..stages import TOLD_TIMES, told
from ..stopping import stop_reason
from ..structure import structure_of
from .start import context_of, services_of, tell

BROKEN_AFTER = 4
"""Infrastructure errors in a row that end a run: fewer may be one candidate's bad luck."""


def open_round(state: State, runtime: Runtime[Context]) -> Update:
    """Opens a round of the phase: decides what to ask of the writers. Runs as node explore, rewrite or tune."""
    services, context = services_of(state.run_dir, runtime), context_of(runtime)
    services.check_stopping()
    seeds = services.strategy.seeds(services.standing(state, context), state.phase)
    opened = state.model_copy(update={"round": state.round + 1, "seeds": seeds})
    requests = services.strategy.requests(services.standing(opened, context))
    tell(
        services,
        runtime,
        "round_opened",
        phase=state.phase,
        round=opened.round,
        asked={request.language: request.n for request in requests},
        tried=state.evaluations,
        budget=context.budget,
        seconds_left=round(max(0.0, context.seconds - state.seconds_used), 1),
    )
    return {
        "round": opened.round,
        "seeds": seeds,
        "requests": requests,
        "proposed": Overwrite([]),
        "results": Overwrite([]),
        "queue": (),
        "diagnoses": (),
    }


def propose(state: ProposeTask, runtime: Runtime[Context]) -> Update:
    """Asks one writer for candidates and keeps their sources in the run directory."""
    services = services_of(state.run_dir, runtime)
    writer = services.writers.get(state.request.language)
    brief, wanted = services.brief(state), state.request.n
    if context_of(runtime).stage not in TOLD_TIMES:
        brief = brief.model_copy(update={"pool": (), "seeds": (), "experience": Experience()})
    candidates = _from_library(brief, services, context_of(runtime))[:wanted]
    asked = {candidate.id: "library" for candidate in candidates}
    if writer and len(candidates) < wanted:
        brief = brief.model_copy(update={"tried": brief.tried | set(asked)})
        candidates += writer.propose(brief, wanted - len(candidates))[: wanted - len(candidates)]
    request = f"{state.request.directive} {state.request.tag}".strip()
    candidates = [each for candidate in candidates for each in frozen(candidate)]
    for candidate in candidates:
        order = (state.round, state.request.part)
        services.run.add_candidate(candidate.model_copy(update={"asked": asked.get(candidate.id, request)}), order)
    return {"proposed": [candidate.id for candidate in candidates]}


def _from_library(brief: Brief, services: Services, context: Context) -> list[Candidate]:
    """Kernels of earlier runs, before the first candidate of their language."""
    if context.library is None or any(row.language == brief.language for row in services.run.rows()):
        return []
    return offered(Library(Path(context.library)), brief, services.writers.get(brief.language))


def schedule(state: State, runtime: Runtime[Context]) -> Update:
    """Drops what was tried before and twins within the round, so that each candidate is evaluated once."""
    tried = set(state.tried)
    new = tuple(dict.fromkeys(id for id in state.proposed if id not in tried))
    room = min(context_of(runtime).budget - state.evaluations, quota_left(state))
    queue = new[: max(0, room)]
    services = services_of(state.run_dir, runtime)
    tell(services, runtime, "proposed", round=state.round, proposed=len(state.proposed), new=len(queue))
    return {"queue": queue}


def evaluate(state: EvaluateTask, runtime: Runtime[Context]) -> Update:
    """Compiles, checks and times one candidate. Branches run at once; the harness lets one at a time on the GPU."""
    services = services_of(state.run_dir, runtime)
    candidate = services.run.candidate(state.candidate)
    evaluation = services.run.evaluation(candidate.id)  # Known where a killed run had judged it already.
    if evaluation is None or evaluation.status is Status.INFRA_ERROR:
        services.check_stopping()
        services.toolbox.compile_kernel(candidate)
        evaluation = services.toolbox.evaluate(candidate)
        services.run.add_evaluation(evaluation, "quick")
    row = make_row(candidate, evaluation, state)
    tell(
        services,
        runtime,
        "evaluated",
        candidate=row.id,
        language=row.language,
        status=row.status.value,
        rank=row.rank,
        ms=row.ms,
        phase=row.phase,
        round=row.round,
        seconds=round(evaluation.seconds, 3),
        message=evaluation.message[:200],
    )
    return {"results": [row]}


def make_row(candidate: Candidate, evaluation: Evaluation, task: EvaluateTask) -> Row:
    timing, estimate = evaluation.primary, evaluation.estimate
    return Row(
        id=candidate.id,
        language=candidate.language,
        origin=candidate.origin,
        template=candidate.template or "",
        parent=candidate.parent or "",
        phase=task.phase,
        round=task.round,
        status=evaluation.status,
        rank=evaluation.rank,
        ms=timing.candidate.median_ms if timing else estimate.ms if estimate else None,
        behind=behind(evaluation),
        sol_fraction=sol_fraction(evaluation),
        structure=digest(structure_of(candidate))[:6],  # Every checkpoint holds the pool's: they have to be short.
        asked=candidate.asked,
    )


def profile(state: State, runtime: Runtime[Context]) -> Update:
    """Takes hardware counters of the best kept candidate, once each and as often as the settings allow.

    Only where somebody heeds them; the winner is profiled with its last verdict in any case.
    """
    services, context = services_of(state.run_dir, runtime), context_of(runtime)
    if not services.heeds_counters:
        return {}
    kept = ranked((*state.pool, *state.results), state.dry_run)
    if not kept or kept[0].id in state.profiled or len(state.profiled) >= context.profiles:
        return {}
    services.check_stopping()
    counters = services.toolbox.profile_kernel(services.run.candidate(kept[0].id))
    services.run.write_record(f"profile-{kept[0].id}", counters)
    tell(services, runtime, "profiled", candidate=kept[0].id, kernels=len(counters.kernels), reason=counters.reason)
    return {"profiled": (*state.profiled, kept[0].id)}


def diagnose(state: State, runtime: Runtime[Context]) -> Update:
    """Names the suspected bottleneck of each of the round's candidates, and of the one profiled last."""
    services = services_of(state.run_dir, runtime)
    ids = dict.fromkeys([row.id for row in state.results] + list(state.profiled[-1:]))
    flops = product_flops(services.plan)
    found = []
    for id in ids:
        evaluation = services.run.evaluation(id)
        counters = services.run.read_record(f"profile-{id}", Profile) if id in state.profiled else None
        if evaluation and (text := bottleneck(evaluation, counters, services.device, flops)):
            found.append(Diagnosis(candidate=id, bottleneck=text))
    return {"diagnoses": tuple(found)}


def feedback(state: State, runtime: Runtime[Context]) -> Update:
    """Puts the round into the five fields that writers hear."""
    services = services_of(state.run_dir, runtime)
    suspected = {diagnosis.candidate: diagnosis.bottleneck for diagnosis in state.diagnoses}
    kept = ranked((*state.pool, *state.results), state.dry_run)
    best_rank = max([state.best_rank, *(row.rank for row in kept[:1])])
    heard = []
    for row in state.results:
        evaluation = services.run.evaluation(row.id)
        parent = services.run.evaluation(row.parent) if row.parent else None
        if evaluation is not None:
            gap = target_gap(services.problem.target, evaluation, services.device)
            goal = Goal(best_ms=kept[0].ms if kept else None, target=gap)
            heard.append(make_feedback(evaluation, parent, best_rank, suspected.get(row.id, ""), goal))
    return {"feedback": tuple(told(each, context_of(runtime)) for each in heard)}


def record(state: State, runtime: Runtime[Context]) -> Update:
    """Adds the round to the trajectory, keeps the best, and decides whether the phase or the search is over.

    A notable gain is measured a second time first: what does not repeat counts with its second, smaller number.
    """
    services, context = services_of(state.run_dir, runtime), context_of(runtime)
    _measure_again(state, services, runtime)
    results = [_corrected(row, services, state.best_rank) for row in _with_bottlenecks(state)]
    services.run.add_rows(results)
    _stop_if_broken(services)
    tokens, money = services.spent()
    after = after_round(state, results).model_copy(
        update={
            "seconds_used": state.seconds_used + services.lap(),
            "tokens_used": state.tokens_used + tokens,
            "money_used": state.money_used + money,
        }
    )
    best = after.pool[0] if after.pool else None
    progress = services.progress(after, context, best)
    phase_over = not state.queue or progress.stale or quota_left(after) < 1
    reason = stop_reason(replace(progress, nothing_proposed=phase_over))
    if best is not None and after.rounds_without_gain == 0:
        tell(services, runtime, "best", candidate=best.id, language=best.language, rank=best.rank, ms=best.ms)
    if tokens:
        spent = round_spending(tokens, state.round, state.best_rank, after.best_rank)
        tell(services, runtime, "models_spent", **spent.model_dump())
    update: Update = {
        "tried": after.tried,
        "pool": after.pool,
        "best": after.best,
        "best_rank": after.best_rank,
        "evaluations": after.evaluations,
        "evaluations_at_gain": after.evaluations_at_gain,
        "seconds_used": after.seconds_used,
        "rounds_without_gain": after.rounds_without_gain,
        "phase_over": phase_over,
        "stop_reason": reason,
    }
    if tokens or money:  # A channel that is never written takes no room in checkpoints.
        update |= {"tokens_used": after.tokens_used, "money_used": after.money_used}
    return update


def _measure_again(state: State, services: Services, runtime: Runtime[Context]) -> None:
    """Measures a round's best a second time, at all workloads and draws, where it claims a notable gain.

    A dry run has only estimates, which repeat.
    """
    best = next(iter(ranked(state.results, state.dry_run)), None)
    if state.dry_run or not context_of(runtime).confirm or not needs_confirming(best, state.best_rank):
        return
    assert best is not None
    evaluation = services.run.evaluation(best.id, "full")
    if evaluation is None:
        services.check_stopping()
        evaluation = services.toolbox.evaluate(services.run.candidate(best.id), "full")
        services.run.add_evaluation(evaluation, "full")
    agreed = confirms(best.rank, evaluation.rank, state.best_rank)
    tell(services, runtime, "confirmed", candidate=best.id, agreed=agreed, first=best.rank, second=evaluation.rank)


def _corrected(row: Row, services: Services, best_rank_before: float) -> Row:
    """The row with the smaller of two measurements, where there are two: 0 if the second failed."""
    second = services.run.evaluation(row.id, "full")
    if second is None:
        return row
    agreed = confirms(row.rank, second.rank, best_rank_before)
    return row.model_copy(update={"rank": min(row.rank, second.rank), "agreed": agreed})


def _with_bottlenecks(state: State) -> list[Row]:
    suspected = {diagnosis.candidate: diagnosis.bottleneck for diagnosis in state.diagnoses}
    return [
        row.model_copy(update={"bottleneck": suspected.get(row.id, "").partition(":")[0][:40]}) for row in state.results
    ]


def _stop_if_broken(services: Services) -> None:
    last = services.run.rows()[-BROKEN_AFTER:]
    if len(last) == BROKEN_AFTER and all(row.status is Status.INFRA_ERROR for row in last):
        evaluation = services.run.evaluation(last[-1].id)
        raise InfraError(f"{BROKEN_AFTER} evaluations in a row failed: {evaluation.message if evaluation else ''}")
