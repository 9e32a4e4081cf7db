"""When to force diversity, when to cool down, when to give up: rules that scale with the budget.

All of them count rounds. They were set for a search of 40 rounds (N = 5, patience 10, cooling after 10) and shrink with
smaller ones, down to what still says something.
"""

from math import ceil

from ...state.channels import Context
from .standing import Standing

REFERENCE_ROUNDS = 40
HOT, COOL = 1.0, 0.3
"""Temperatures: at the first a writer moves slots by two places, at the second by one."""
LEVEL = 0.01
"""A gain over the window below this share cools the search down."""


def diversity_interval(rounds: int) -> int:
    """Every how many rounds a structurally different candidate is asked for: 5, in short searches 3."""
    return max(3, min(5, ceil(5 * rounds / REFERENCE_ROUNDS)))


def cooling_window(rounds: int) -> int:
    """Over how many rounds the gain is taken: 10 for 40 rounds and more, at least 2."""
    return max(2, min(10, ceil(10 * rounds / REFERENCE_ROUNDS)))


def patience_of(context: Context, round_size: int) -> int:
    """Rounds without gain that end a phase: as set, else a quarter of the budget's rounds, at least 3."""
    return context.patience or max(3, ceil(context.budget / max(1, round_size) / 4))


def diversity_due(standing: Standing, round_size: int) -> bool:
    """Whether this round must bring something structurally different."""
    interval = diversity_interval(standing.rounds_of_budget(round_size))
    return standing.state.round > 0 and standing.state.round % interval == 0 and bool(standing.kept)


def temperature(standing: Standing, round_size: int) -> float:
    """High while the search gains, low once the last rounds gained less than 1%."""
    window = cooling_window(standing.rounds_of_budget(round_size))
    return COOL if standing.gain_of_last(window) < LEVEL else HOT


def varied_slot(standing: Standing, round_size: int) -> int | None:
    """When stuck, the ordinal of the one slot to move far this round, the next one each time; else None."""
    stuck = standing.state.rounds_without_gain - ceil(patience_of(standing.context, round_size) / 2)
    return stuck if stuck >= 0 and standing.kept else None
