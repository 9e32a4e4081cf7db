"""What models cost a run and what that brought."""

from pydantic import Field

from .base import Record


class RoleSpending(Record):
    """What one role used in one phase with one model."""

    role: str
    phase: str
    model: str
    asks: int = 0
    answered: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    seconds: float = 0.0
    """Waiting for answers, summed over conversations that may have run at once."""
    cost: float | None = None
    """In the price table's currency; None where the price is unknown."""
    estimated: bool = False
    """Part of the tokens is our own upper bound: uncounted by the endpoint, or of a request whose answer was lost."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class RoundSpending(Record):
    """What one round spent on models, and what it gained."""

    round: int
    tokens: int
    gain: float = Field(ge=0)
    """Best speedup after the round over the one before, minus 1; of a first kernel, over 1 (the best baseline)."""
    paid: bool
    """It gained enough for its tokens; see `LEAST_GAIN`."""


class Spending(Record):
    """Models in one run."""

    roles: tuple[RoleSpending, ...] = ()
    rounds: tuple[RoundSpending, ...] = ()
    tokens: int = 0
    token_budget: int | None = None
    cost: float | None = None
    offline_rank: float = 0.0
    """Best speedup of a kernel that no model wrote; 0 where there is none."""
    model_rank: float = 0.0
    """Best speedup of a model's kernel; 0 where there is none."""
    gain_per_1000_tokens: float = 0.0
    """How much the models' best is above the best without them (at least 1, the best baseline), per 1000 tokens."""
    in_flight: int = 0
    """Requests that a session left unanswered when it ended: they may have been asked again."""
    failed: int = 0
    """Requests that were given up without an answer."""
    failure: str = ""
    """What the last of them failed with."""
    stopped: str = ""
    """Why no model could be asked any more."""

    @property
    def tokens_by_role(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for each in self.roles:
            found[each.role] = found.get(each.role, 0) + each.tokens
        return found
