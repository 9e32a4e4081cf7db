"""Offline writers and a model together: what templates can do costs nothing, the model is asked for the rest."""

from ..state.brief import Brief
from ..state.candidate import Candidate, SlotValue
from .writer import Writer


class HybridWriter:
    """Seeds by one writer, and what that one cannot do by another. Neither ever gets in the other's way."""

    def __init__(self, offline: Writer, model: Writer) -> None:
        self.name = f"{offline.name}+{model.name}"
        self._offline = offline
        self._model = model

    def propose(self, brief: Brief, n: int) -> list[Candidate]:
        """At most n candidates: the offline share first, then the model's, then offline ones in place of missing."""
        found: list[Candidate] = []
        for writer, count in ((self._offline, n - model_share(brief, n)), (self._model, n), (self._offline, n)):
            room = min(count, n - len(found))
            if room > 0:
                known = brief.tried | {candidate.id for candidate in found}
                made = writer.propose(brief.model_copy(update={"tried": known}), room)
                found += [candidate for candidate in made if candidate.id not in known][:room]
        return found

    def reproduce(self, brief: Brief, slots: dict[str, SlotValue]) -> Candidate | None:
        """The offline writer's candidate with these slots; None where it cannot make one."""
        make = getattr(self._offline, "reproduce", None)
        return make(brief, slots) if make else None


def model_share(brief: Brief, n: int) -> int:
    """How many of n candidates the model is asked for.

    All where no template covers anything; all but one in four (at least one seed at first) where PyTorch keeps a part
    of the work; none in the first round of a problem that templates cover, half of the later ones.
    """
    forward = brief.plan.forward
    if forward is None:
        return n
    if forward.uncovered:
        return n - max(1 if not brief.tried and n > 1 else 0, n // 4)
    return (n + 1) // 2 if brief.tried else 0
