"""Ranked greedy: hypotheses in the order of the gain that is expected of them, learnt from what they brought.

A hypothesis is what one can ask for: a fresh idea of the writer's own ranking, a change to the best, a change to the
best of another structure, or another structure. Each starts with a prior and is judged by the gains it made here.
"""

from collections import defaultdict
from collections.abc import Iterator

from ...state.channels import WriterRequest
from .pacing import temperature, varied_slot
from .standing import Standing
from .strategy import Phased, ask, first_language

PRIORS = {"explore": 0.10, "tune": 0.08, "tune other": 0.05, "diversify": 0.03}
"""Gain expected of one candidate before anything is known, as a share."""
PRIOR_WEIGHT = 3
"""Candidates that a prior counts for."""


class RankedGreedy(Phased):
    """Two thirds of a round to the best hypothesis, the rest to the second."""

    name = "ranked"

    def steps(self, standing: Standing, room: int) -> tuple[WriterRequest, ...]:
        if not self.candidates(standing):
            return (ask(standing, first_language(standing.context), "explore", room),)
        first = room - room // 3
        ranked = list(self._requests(standing, (first, room - first)))
        return tuple(request for request in ranked if request is not None)

    def _requests(self, standing: Standing, sizes: tuple[int, int]) -> Iterator[WriterRequest]:
        expected = expected_gains(standing)
        possible = [name for name in sorted(expected, key=lambda name: -expected[name]) if self._seed(standing, name)]
        for part, (name, n) in enumerate(zip(possible, sizes, strict=False)):
            if n:
                seed, language = self._seed(standing, name) or ("", first_language(standing.context))
                directive, _, tag = name.partition(" ")
                yield ask(
                    standing,
                    language,  # type: ignore[arg-type]
                    directive,  # type: ignore[arg-type]
                    n,
                    part=part,
                    seeds=(seed,) if directive == "tune" else (),
                    temperature=temperature(standing, standing.context.width),
                    vary=varied_slot(standing, standing.context.width) if directive == "tune" else None,
                    tag=tag,
                )

    def _seed(self, standing: Standing, hypothesis: str) -> tuple[str, str] | None:
        """Id and language that a hypothesis starts from, None where there is nothing to start from."""
        rows = self.candidates(standing)
        best = rows[0]
        if hypothesis != "tune other":
            return best.id, best.language
        other = next((row for row in rows if row.structure != best.structure), None)
        return (other.id, other.language) if other else None


def expected_gains(standing: Standing) -> dict[str, float]:
    """Mean gain of a candidate by hypothesis, priors counted in."""
    gains: dict[str, list[float]] = defaultdict(list)
    before = (0.0, *standing.best_by_round)
    for row in standing.rows:
        best = before[row.round - 1]
        if row.asked in PRIORS and best > 0:
            gains[row.asked].append(max(0.0, row.rank / best - 1))
    return {
        name: (prior * PRIOR_WEIGHT + sum(gains[name])) / (PRIOR_WEIGHT + len(gains[name]))
        for name, prior in PRIORS.items()
    }
