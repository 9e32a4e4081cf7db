"""What a search strategy sees: the state, the settings and every candidate tried so far. Pure reading."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil

from ...state.channels import Context, State
from ...state.trajectory import PHASES, Phase, Row
from ..keeping import ranked


@dataclass(frozen=True)
class Standing:
    """Where a search stands. The same standing always gives the same decision."""

    state: State
    context: Context
    rows: tuple[Row, ...] = ()
    """The trajectory so far, in the order of evaluation."""

    @cached_property
    def kept(self) -> tuple[Row, ...]:
        """Every row that passed, best first."""
        return ranked(self.rows or self.state.pool, self.state.dry_run)

    @property
    def room(self) -> int:
        """Evaluations that the phase and the budget still allow, at most a round of them."""
        left = min(quota_left(self.state), self.context.budget - self.state.evaluations)
        return max(0, min(self.context.width, left))

    @cached_property
    def best_by_round(self) -> tuple[float, ...]:
        """The best rank after each round so far."""
        best, after = 0.0, []
        for round_ in range(1, max((row.round for row in self.rows), default=0) + 1):
            ranks = [row.rank for row in self.kept if row.round == round_]
            best = max([best, *ranks])
            after.append(best)
        return tuple(after)

    def gain_of_last(self, rounds: int) -> float:
        """How much the best rose over the last rounds, as a share; infinite where there was none before."""
        best = self.best_by_round
        if len(best) <= rounds or best[-rounds - 1] <= 0:
            return float("inf")
        return best[-1] / best[-rounds - 1] - 1

    def rounds_of_budget(self, round_size: int) -> int:
        """Rounds of that many candidates that the whole budget allows."""
        return ceil(self.context.budget / max(1, round_size))


def quota_left(state: State) -> int:
    """Evaluations left to the phase: its own quota and what earlier phases did not use."""
    phases = list(state.quotas)
    allowed = sum(state.quotas[phase] for phase in phases[: phases.index(state.phase) + 1])
    return allowed - state.evaluations


def next_phase(state: State) -> Phase | None:
    """The phase after this one, None after the last."""
    phases = [phase for phase in PHASES if phase in state.quotas]
    later = phases[phases.index(state.phase) + 1 :]
    return later[0] if later else None
