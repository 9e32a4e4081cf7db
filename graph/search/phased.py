"""The default: explore by the cost model, rewrite the best seeds in CUDA, tune the best of both."""

from ...state.brief import Directive
from ...state.candidate import Language
from ...state.channels import WriterRequest
from .standing import Standing
from .strategy import Phased, ask, first_language, shared_out

SPREAD_FROM = 30
"""Budget from which exploring asks for spread."""
MOST_SPREAD = 24
"""Candidates after which it no longer does."""


class PhasedSearch(Phased):
    """One request a language, sharing the width."""

    name = "phased"

    def steps(self, standing: Standing, room: int) -> tuple[WriterRequest, ...]:
        languages = self._languages(standing)
        if not languages:
            return ()
        if self._spreading(standing):
            return (ask(standing, languages[0], "explore", room, spread=True, tag="spread"),)
        sizes = shared_out(room, len(languages))
        return tuple(
            ask(
                standing,
                language,
                self._directive(standing),
                size,
                part=index,
                temperature=1.0 + 0.5 * standing.state.rounds_without_gain,
            )
            for index, (language, size) in enumerate(zip(languages, sizes, strict=True))
            if size
        )

    def _spreading(self, standing: Standing) -> bool:
        """With a budget to spare, every other one of the first candidates is of another kind."""
        state, budget = standing.state, standing.context.budget
        return state.phase == "explore" and budget >= SPREAD_FROM and state.evaluations < min(MOST_SPREAD, budget // 3)

    def _languages(self, standing: Standing) -> tuple[Language, ...]:
        state = standing.state
        if state.phase == "tune":
            return tuple(dict.fromkeys(row.language for row in state.pool if row.id in state.seeds))
        return (first_language(standing.context),)

    def _directive(self, standing: Standing) -> Directive:
        if standing.state.phase == "tune":
            return "tune"
        return "diversify" if standing.state.rounds_without_gain else "explore"
