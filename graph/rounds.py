"""What a round does to the state's books, apart from where its results came from. Pure."""

from collections.abc import Sequence

from ..state.channels import State
from ..state.trajectory import Row
from .keeping import GAIN, pool_of, ranked


def after_round(state: State, results: Sequence[Row]) -> State:
    """The state with a round's results counted in: tried, pool, best, and for how long nothing has gained."""
    kept = ranked((*state.pool, *results), state.dry_run)
    best = kept[0] if kept else None
    gained = best is not None and best.rank > state.best_rank * GAIN
    evaluations = state.evaluations + len(results)
    return state.model_copy(
        update={
            "tried": (*state.tried, *(row.id for row in results)),
            "pool": pool_of(kept),
            "best": best.id if best else "",
            "best_rank": best.rank if best else 0.0,
            "evaluations": evaluations,
            "evaluations_at_gain": evaluations if gained else state.evaluations_at_gain,
            "rounds_without_gain": 0 if gained else state.rounds_without_gain + 1,
        }
    )
