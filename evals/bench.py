"""One harness for many problems: opened on first use, and again after it broke."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..graph.api import optimize
from ..graph.services import Collaborators, open_harness_for
from ..graph.settings import make_context
from ..state.errors import InfraError
from ..state.timing import Baselines
from ..state.trajectory import Result
from ..tools.harness import Harness


class Bench:
    """Runs problems under one set of settings (the fields of the graph's `Context`). Close it at the end.

    A harness among the collaborators that are `given` is used instead of an own one, and left open.
    """

    def __init__(self, given: Collaborators | None = None, **settings: Any) -> None:
        self._context = make_context(settings)
        self._given = given or Collaborators()
        self._open: Harness | None = None

    @property
    def harness(self) -> Harness:
        if self._open is None:
            self._open = self._given.harness or open_harness_for(self._context)
        return self._open

    def optimize(self, path: Path) -> Result:
        """Optimises one problem. Raises as `warpsmith.graph.optimize` does."""
        try:
            return optimize(path, given=replace(self._given, harness=self.harness), **self._context.model_dump())
        except InfraError:
            self.close()
            raise

    def baseline(self, path: Path) -> Baselines:
        """Times one problem's baselines, or takes them from the baselines file. Raises InvalidProblem or InfraError."""
        try:
            return self.harness.baseline(self.harness.load(path))
        except InfraError:
            self.close()
            raise

    def close(self) -> None:
        harness, self._open = self._open, None
        if harness is not None and harness is not self._given.harness:
            harness.close()
