"""Greedy chain: one change a round to the best so far. The simplest thing that learns, kept to compare with."""

from ...state.channels import Context, WriterRequest
from .pacing import temperature, varied_slot
from .standing import Standing
from .strategy import Phased, ask, first_language


class GreedyChain(Phased):
    """One candidate a round: a neighbour of the best."""

    name = "chain"

    def round_size(self, context: Context) -> int:
        return 1

    def steps(self, standing: Standing, room: int) -> tuple[WriterRequest, ...]:
        best = next(iter(self.candidates(standing)), None)
        if best is None:
            return (ask(standing, first_language(standing.context), "explore", 1),)
        return (
            ask(
                standing,
                best.language,
                "tune",
                1,
                seeds=(best.id,),
                temperature=temperature(standing, 1),
                vary=varied_slot(standing, 1),
            ),
        )
