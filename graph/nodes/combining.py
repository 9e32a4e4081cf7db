"""The node between the search and the validation of what it found: two kernels in one file, by size."""

from langgraph.runtime import Runtime

from ...state.channels import Context, EvaluateTask, State, Update
from ...state.evaluation import Evaluation
from ...sub_agents.two_in_one import two_in_one
from ..keeping import pool_of, ranked
from ..services import Services
from ..sizes import best_pair
from .loop import evaluate
from .start import context_of, services_of, tell

OUT_OF_TIME = ("budget_seconds", "interrupted")


def combine(state: State, runtime: Runtime[Context]) -> Update:
    """Has one kernel run on large inputs and another on small ones, where that promises more than any alone.

    The two in one are a candidate like any other: judged, ranked, and handed out only if nothing is faster. It is no
    part of the budget, as second measurements are none: both of its kernels were.
    """
    services, context = services_of(state.run_dir, runtime), context_of(runtime)
    if context.stage != "hardened" or state.dry_run or state.stop_reason in OUT_OF_TIME:
        return {}
    id = _combined(state, services)
    if not id or id in state.tried:
        return {}
    task = EvaluateTask(run_dir=state.run_dir, candidate=id, phase=state.phase, round=state.round)
    (row,) = evaluate(task, runtime)["results"]
    services.run.add_rows([row])
    tell(services, runtime, "combined", candidate=id, status=row.status.value, rank=row.rank, best=state.best_rank)
    kept = ranked((*state.pool, row), state.dry_run)
    update: Update = {"tried": (*state.tried, id), "pool": pool_of(kept)}
    if kept and kept[0].id == id:
        update |= {"best": id, "best_rank": row.rank}
    return update


def most_thorough(id: str, services: Services) -> Evaluation | None:
    """What the search knows best of a candidate."""
    return services.run.evaluation(id, "full") or services.run.evaluation(id)


def _combined(state: State, services: Services) -> str:
    """Keeps the file of the pair that promises most; empty where there is none, or the two do not fit together."""
    # By the state: where a run was cut off in this node, its directory holds the merged one already.
    judged = {id: most_thorough(id, services) for id in state.tried}
    known = {id: evaluation for id, evaluation in judged.items() if evaluation is not None}
    pair = best_pair(services.problem, known, state.best_rank)
    if pair is None:
        return ""
    large, small = (services.run.candidate(id) for id in (pair.large, pair.small))
    made = two_in_one(large, small, pair.rule)
    if made is None:
        return ""
    services.run.add_candidate(made.model_copy(update={"asked": "combine"}))
    return made.id
