"""The plans of one brief: with convolutions and attention of its own, and with PyTorch's library or in parts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..state.brief import Brief
from ..state.candidate import Candidate
from ..state.program import ForwardPlan
from .step_space import StepSpace


@dataclass(frozen=True)
class Way:
    """One plan of a brief, with the choices for its steps."""

    brief: Brief
    forward: ForwardPlan
    spaces: dict[str, StepSpace]

    def made(self, candidate: Candidate) -> bool:
        """Whether a candidate has this plan's steps."""
        return {name.partition(".")[0] for name in candidate.slots} == set(self.spaces)

    def without(self, other: "Way") -> "Way":
        """The same, without what was made by the other plan."""
        kept = {
            field: tuple(each for each in getattr(self.brief, field) if not other.made(each.candidate))
            for field in ("seeds", "pool")
        }
        return replace(self, brief=self.brief.model_copy(update=kept))


def parted(ways: Sequence[Way]) -> list[Way]:
    """Each way with the candidates that it made; where they are to be tuned, only ways that have some.

    A rewriting may come to a template that no candidate of the first language could show the worth of.
    """
    if len(ways) < 2:
        return list(ways)
    own, library = ways
    each_with_own = [own.without(library), library.without(own)]
    if own.brief.directive != "tune":
        return each_with_own
    return [way for way in each_with_own if way.brief.seeds or way.brief.pool] or each_with_own
