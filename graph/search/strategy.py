"""What a search strategy is, and what all of them share: phases, their quotas, and rewriting in CUDA.

A strategy only reads; it draws nothing and keeps nothing. What it needs to remember is in the rows.
"""

from abc import ABC, abstractmethod
from typing import Protocol

from ...state.base import digest
from ...state.brief import Directive
from ...state.candidate import Language
from ...state.channels import Context, WriterRequest
from ...state.trajectory import Phase, Row
from ..keeping import best_of_each_language
from .pacing import diversity_due
from .standing import Standing

FORCED = "forced"
"""Tag of the requests for diversity that are made whether or not the search gains."""


class SearchStrategy(Protocol):
    """Decides phases, requests and seeds."""

    name: str

    def quotas(self, context: Context) -> dict[str, int]:
        """Evaluations for each phase, in the order of the phases; they add up to the budget."""
        ...

    def round_size(self, context: Context) -> int:
        """Candidates that a full round brings."""
        ...

    def requests(self, standing: Standing) -> tuple[WriterRequest, ...]:
        """What this round asks of the writers; none where the phase has nothing to ask."""
        ...

    def seeds(self, standing: Standing, phase: Phase) -> tuple[str, ...]:
        """Ids that this round of a phase starts from, best first."""
        ...


class Phased(ABC):
    """Explore in the first language, rewrite the best seeds in CUDA, go on with the best of both.

    With one language there is no rewriting. How a strategy explores and tunes is its own `steps`.
    """

    name = ""
    seed_count = 2
    """Seeds to rewrite, and kernels to tune for each language."""
    worth_tuning = 0.7
    """A language's best is tuned only if it reaches this share of the overall best."""

    def quotas(self, context: Context) -> dict[str, int]:
        """Shares of 14, 8 and 8 in 30 for both languages, 18 and 12 for one."""
        both = context.languages == "both"
        shares = {"explore": 14, "rewrite": 8, "tune": 8} if both else {"explore": 18, "tune": 12}
        quotas = {phase: context.budget * share // 30 for phase, share in shares.items()}
        quotas["explore"] += context.budget - sum(quotas.values())
        return {phase: quota for phase, quota in quotas.items() if quota}

    def round_size(self, context: Context) -> int:
        return context.width

    def seeds(self, standing: Standing, phase: Phase) -> tuple[str, ...]:
        """None to explore; Triton's best to rewrite; the best of each language that is near the best to tune."""
        pool = standing.state.pool
        if phase == "explore":
            return ()
        if phase == "rewrite":
            return tuple(row.id for row in pool if row.language == "triton")[: self.seed_count]
        near = [row for row in pool if row.rank >= self.worth_tuning * standing.state.best_rank]
        return tuple(row.id for row in best_of_each_language(near, self.seed_count))

    def requests(self, standing: Standing) -> tuple[WriterRequest, ...]:
        """Rewriting, or the strategy's own steps; cut to what is left of the quota and the budget."""
        room = standing.room
        if room < 1:
            return ()
        if standing.state.phase == "rewrite":
            directive: Directive = "rewrite" if standing.state.seeds else "explore"
            heat = 1.0 + 0.5 * standing.state.rounds_without_gain
            return (ask(standing, "cuda", directive, room, temperature=heat),)
        forced = self._forced_diversity(standing) if room > 1 else ()
        return (*self.steps(standing, room - len(forced)), *forced)

    def _forced_diversity(self, standing: Standing) -> tuple[WriterRequest, ...]:
        """Every few rounds one structurally different candidate, which the pool keeps even if it is slower."""
        best = next(iter(self.candidates(standing)), None)
        if best is None or not diversity_due(standing, self.round_size(standing.context)):
            return ()
        return (ask(standing, best.language, "diversify", 1, part=99, tag=FORCED),)

    @abstractmethod
    def steps(self, standing: Standing, room: int) -> tuple[WriterRequest, ...]:
        """What a round of exploring or tuning asks for: at most `room` candidates."""

    def candidates(self, standing: Standing) -> tuple[Row, ...]:
        """The kept rows that this phase may start from, best first: exploring stays in its language.

        In later phases the best of another language comes first every second round, if it is near the best: a fresh
        rewriting has not been tuned yet.
        """
        kept, state = standing.kept, standing.state
        if state.phase == "explore":
            language = first_language(standing.context)
            return tuple(row for row in kept if row.language == language)
        near = [row for row in best_of_each_language(kept, 1) if row.rank >= self.worth_tuning * kept[0].rank]
        first = near[state.round % len(near)] if near else None
        return (first, *(row for row in kept if row is not first)) if first else kept


def ask(standing: Standing, language: Language, directive: Directive, n: int, **fields: object) -> WriterRequest:
    """A request with its own generator seed, which tells requests of one round apart by `part`."""
    request = WriterRequest.model_validate({"language": language, "directive": directive, "n": n, **fields})
    seed = rng_seed(standing.context.seed, standing.state.round, request.part)
    return request.model_copy(update={"rng_seed": seed})


def languages_of(context: Context) -> tuple[Language, ...]:
    """What candidates may be written in."""
    return ("triton", "cuda") if context.languages == "both" else (context.languages,)


def first_language(context: Context) -> Language:
    return "cuda" if context.languages == "cuda" else "triton"


def shared_out(room: int, parts: int) -> list[int]:
    """`room` in that many nearly equal parts, the earlier ones larger."""
    return [room // parts + (index < room % parts) for index in range(parts)]


def rng_seed(*parts: int) -> int:
    """A seed that is the same on every machine for the same run seed, round and request."""
    return int(digest(*parts)[:8], 16)
