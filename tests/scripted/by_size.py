"""A small world with two sizes, where other kernels are the fastest on each."""

from dataclasses import dataclass, field
from pathlib import Path

from warpsmith.state.brief import Brief
from warpsmith.state.candidate import Candidate, Language, make_candidate
from warpsmith.state.evaluation import Evaluation, Tier
from warpsmith.state.problem import Problem
from warpsmith.state.syntax import literal

from .collaborators import ScriptedHarness, timing

KERNEL = """
slots = {slots!r}


def run(x):
    return x * {tile}


class ModelNew:
    def forward(self, x):
        return run(x)
"""
SPEEDUPS = {1024: (3.0, 0.5), 16: (0.5, 2.5), 64: (1.5, 1.5)}
"""On the large and on the small workload, by tile."""


def kernel(tile: int) -> Candidate:
    source = KERNEL.format(slots={"tile": tile, "stages": 1, "fate": ""}, tile=tile)
    return make_candidate(source, "triton", origin="template", template="scripted", slots={"tile": tile})


@dataclass
class Writer:
    language: Language = "triton"
    tiles: tuple[int, ...] = (64, 1024, 16)
    fitting: dict[int, int] = field(default_factory=dict)
    """Tile by number of rows, when it is asked for kernels that fit them."""
    name: str = "scripted"
    asked: list[Brief] = field(default_factory=list)

    def propose(self, brief: Brief, n: int) -> list[Candidate]:
        self.asked.append(brief)
        if brief.directive == "fit":
            assert brief.plan.forward is not None
            made = [kernel(self.fitting[brief.plan.forward.hints["s0"]])]
            return [each for each in made if each.id not in brief.tried][:n]
        return [each for each in map(kernel, self.tiles) if each.id not in brief.tried][:n]


@dataclass
class BySize(ScriptedHarness):
    """Times both workloads at every tier; two kernels in one run as fast as each alone, times `merged`."""

    merged: float = 1.0

    def load(self, path: Path) -> Problem:
        found = super().load(path)
        sizes = {"default": 1 << 20, "odd": 1 << 10}
        workloads = [w.model_copy(update={"inputs": ({"shape": [sizes[w.name]]},)}) for w in found.workloads]
        return found.model_copy(update={"workloads": tuple(workloads)})

    def _verdict(self, problem: Problem, candidate: Candidate, tier: Tier) -> Evaluation:
        found = super()._verdict(problem, candidate, tier)
        if not found.timings:
            return found
        large, small = (SPEEDUPS[tile] for tile in self._tiles(candidate))
        scale = self.merged if "LARGE_ELEMENTS" in candidate.source else 1.0
        timings = (timing("default", large[0] * scale), timing("odd", small[1] * scale))
        return found.model_copy(update={"timings": timings})

    def _tiles(self, candidate: Candidate) -> tuple[int, int]:
        written = [line.partition(" = ") for line in candidate.source.splitlines() if line.startswith("slots")]
        slots = [literal(value) for _, _, value in written]
        return int(slots[0]["tile"]), int(slots[-1]["tile"])
