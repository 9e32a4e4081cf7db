"""Beam: the k best go on side by side, each with its share of the round."""

from ...state.channels import WriterRequest
from .pacing import temperature, varied_slot
from .standing import Standing
from .strategy import Phased, ask, first_language, shared_out


class BeamSearch(Phased):
    """Neighbours of the best few, whatever their structure."""

    name = "beam"
    beam = 3

    def steps(self, standing: Standing, room: int) -> tuple[WriterRequest, ...]:
        front = self.candidates(standing)[: self.beam]
        if not front:
            return (ask(standing, first_language(standing.context), "explore", room),)
        heat, vary = temperature(standing, standing.context.width), varied_slot(standing, standing.context.width)
        return tuple(
            ask(standing, row.language, "tune", n, part=part, seeds=(row.id,), temperature=heat, vary=vary)
            for part, (row, n) in enumerate(zip(front, shared_out(room, len(front)), strict=True))
            if n
        )
