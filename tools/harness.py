"""The one way to a verdict: what the controller and the sub-agents may ask of a harness.

Implemented by `LocalHarness` (a GPU or a dry run on this machine) and by `ReplayHarness` (recorded answers).
"""

from pathlib import Path
from typing import Protocol

from ..state.candidate import Candidate
from ..state.device import DeviceSheet
from ..state.evaluation import CompileReport, Evaluation, Tier
from ..state.lowered import LoweredGraph
from ..state.problem import Problem
from ..state.profile import Profile
from ..state.timing import Baselines


class Harness(Protocol):
    """Loads problems and judges candidates. Blocking; `evaluate` may be called from several threads at once."""

    def device(self) -> DeviceSheet:
        """The GPU, or in a dry run the target architecture."""
        ...

    def load(self, path: Path) -> Problem:
        """Reads a problem file in a worker. Raises InvalidProblem with one line that names the file and the fault."""
        ...

    def vet(self, problem: Problem) -> tuple[str, ...]:
        """Refuses what cannot be judged (random, constant, NaN-only: InvalidProblem); returns notes otherwise."""
        ...

    def renew(self, problem: Problem) -> None:
        """Has all that is random drawn anew, as another run would: weights, inputs, hidden shapes."""
        ...

    def lower(self, problem: Problem) -> LoweredGraph:
        """The reference as core ATen operators; a graph with `unsupported` set where that fails."""
        ...

    def baseline(self, problem: Problem) -> Baselines:
        """Times every baseline, from the cache file where it has them. In a dry run entries have no time."""
        ...

    def compile(self, problem: Problem, candidate: Candidate) -> CompileReport:
        """Compiles without running."""
        ...

    def evaluate(self, problem: Problem, candidate: Candidate, tier: Tier = "quick") -> Evaluation:
        """Compile, then correctness, then time: a failure ends there. Raises InfraError, never blames across."""
        ...

    def profile(self, problem: Problem, candidate: Candidate) -> Profile:
        """Hardware counters, or the reason for none."""
        ...

    def close(self) -> None:
        """Ends every worker."""
        ...
