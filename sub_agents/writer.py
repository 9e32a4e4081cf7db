"""What a writer is, offline or with a model behind it."""

from typing import Protocol

from ..state.brief import Brief
from ..state.candidate import Candidate


class Writer(Protocol):
    """Proposes candidates. Never routes, never times, and its own opinion of a kernel counts for nothing."""

    name: str

    def propose(self, brief: Brief, n: int) -> list[Candidate]:
        """At most n new candidates (ids not in `brief.tried`), the most promising first; fewer or none if dry."""
        ...
