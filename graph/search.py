"""What to ask the writers for next. A strategy only reads the state; it draws nothing and keeps nothing."""

from typing import Protocol

from ..state.base import digest
from ..state.brief import Directive
from ..state.candidate import Language
from ..state.channels import Context, Languages, State, WriterRequest
from ..state.trajectory import Phase
from .keeping import best_of_each_language


class SearchStrategy(Protocol):
    """Decides phases, requests and seeds."""

    def quotas(self, context: Context) -> dict[str, int]:
        """Evaluations for each phase, in the order of the phases; they add up to the budget."""
        ...

    def requests(self, state: State, context: Context) -> tuple[WriterRequest, ...]:
        """What this round asks of the writers; none where the phase has nothing to ask."""
        ...

    def seeds(self, state: State, phase: Phase) -> tuple[str, ...]:
        """Ids that this round of a phase starts from, best first."""
        ...


class PhasedSearch:
    """Explore in Triton, rewrite the best seeds in CUDA, tune the best of both; with one language, explore and tune."""

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

    def requests(self, state: State, context: Context) -> tuple[WriterRequest, ...]:
        """One request a language, sharing the width; cut to what is left of the quota and the budget."""
        room = min(context.width, quota_left(state), context.budget - state.evaluations)
        languages = self._languages(state, context)
        if room < 1 or not languages:
            return ()
        sizes = [room // len(languages) + (index < room % len(languages)) for index in range(len(languages))]
        return tuple(
            WriterRequest(
                language=language,
                directive=self._directive(state),
                n=size,
                temperature=1.0 + 0.5 * state.rounds_without_gain,
                rng_seed=rng_seed(context.seed, state.round, index),
            )
            for index, (language, size) in enumerate(zip(languages, sizes, strict=True))
            if size
        )

    def seeds(self, state: State, phase: Phase) -> tuple[str, ...]:
        if phase == "explore":
            return ()
        if phase == "rewrite":
            return tuple(row.id for row in state.pool if row.language == "triton")[: self.seed_count]
        near = [row for row in state.pool if row.rank >= self.worth_tuning * state.best_rank]
        return tuple(row.id for row in best_of_each_language(near, self.seed_count))

    def _languages(self, state: State, context: Context) -> tuple[Language, ...]:
        if state.phase == "tune":
            return tuple(dict.fromkeys(row.language for row in state.pool if row.id in state.seeds))
        if state.phase == "rewrite":
            return ("cuda",)
        return _first_language(context.languages)

    def _directive(self, state: State) -> Directive:
        if state.phase == "rewrite":
            return "rewrite" if state.seeds else "explore"
        if state.phase == "tune":
            return "tune"
        return "diversify" if state.rounds_without_gain else "explore"


def quota_left(state: State) -> int:
    """Evaluations left to the phase: its own quota and what earlier phases did not use."""
    phases = list(state.quotas)
    allowed = sum(state.quotas[phase] for phase in phases[: phases.index(state.phase) + 1])
    return allowed - state.evaluations


def next_phase(state: State) -> Phase | None:
    """The phase after this one, None after the last."""
    phases: list[Phase] = [phase for phase in ("explore", "rewrite", "tune") if phase in state.quotas]  # type: ignore[misc]
    later = phases[phases.index(state.phase) + 1 :]
    return later[0] if later else None


def rng_seed(*parts: int) -> int:
    """A seed that is the same on every machine for the same run seed, round and request."""
    return int(digest(*parts)[:8], 16)


def _first_language(languages: Languages) -> tuple[Language, ...]:
    return ("cuda",) if languages == "cuda" else ("triton",)
