"""Independent proposals: every round asks for fresh candidates. What all learning is measured against."""

from ...state.channels import Context, WriterRequest
from .pacing import HOT
from .standing import Standing
from .strategy import Phased, ask, languages_of, shared_out


class Sampling(Phased):
    """One phase; with both languages each has half of a round. There is no forced diversity either."""

    name = "sample"

    def quotas(self, context: Context) -> dict[str, int]:
        return {"explore": context.budget}

    def requests(self, standing: Standing) -> tuple[WriterRequest, ...]:
        return self.steps(standing, standing.room) if standing.room else ()

    def steps(self, standing: Standing, room: int) -> tuple[WriterRequest, ...]:
        languages = languages_of(standing.context)
        return tuple(
            ask(standing, language, "explore", n, part=part, temperature=HOT)
            for part, (language, n) in enumerate(zip(languages, shared_out(room, len(languages)), strict=True))
            if n
        )
