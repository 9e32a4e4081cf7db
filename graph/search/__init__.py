"""Search strategies: what to ask the writers for next. One file each behind one Protocol."""

from ...state.errors import InvalidInput
from .beam import BeamSearch
from .chain import GreedyChain
from .greedy import RankedGreedy
from .islands import IslandSearch
from .pacing import patience_of
from .phased import PhasedSearch
from .sample import Sampling
from .standing import Standing, next_phase, quota_left
from .strategy import SearchStrategy, rng_seed
from .tree import TreeSearch

__all__ = [
    "STRATEGIES",
    "PhasedSearch",
    "SearchStrategy",
    "Standing",
    "next_phase",
    "patience_of",
    "quota_left",
    "rng_seed",
    "strategy_named",
]

STRATEGIES: dict[str, type[SearchStrategy]] = {
    each.name: each
    for each in (PhasedSearch, GreedyChain, BeamSearch, RankedGreedy, IslandSearch, TreeSearch, Sampling)
}
"""By the name that `--strategy` takes."""


def strategy_named(name: str) -> SearchStrategy:
    """Raises InvalidInput for an unknown name."""
    if name not in STRATEGIES:
        raise InvalidInput(f"setting strategy: no {name!r}; known: {', '.join(STRATEGIES)}")
    return STRATEGIES[name]()
