"""One harness for many problems: opened on first use, and again after it broke."""

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..state.errors import InfraError, WarpsmithError
from ..state.evaluation import Tier
from ..state.timing import Baselines
from ..state.trajectory import Result
from ..tools.harness import Harness
from .api import optimize
from .services import Collaborators, open_harness_for
from .settings import make_context


class Bench:
    """Runs problems under one set of settings (the fields of the graph's `Context`). Close it at the end.

    A harness among the collaborators that are `given` is used instead of an own one, and left open. `evidence_tiers` as
    `open_harness_for` has them.
    """

    def __init__(
        self, given: Collaborators | None = None, evidence_tiers: tuple[Tier, ...] = ("record",), **settings: Any
    ) -> None:
        self._context = make_context(settings)
        self._evidence_tiers = evidence_tiers
        self._given = given or Collaborators()
        self._open: Harness | None = None
        self._reading: threading.Thread | None = None

    @property
    def harness(self) -> Harness:
        if self._open is None:
            self._open = self._given.harness or open_harness_for(self._context, self._evidence_tiers)
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

    def read_ahead(self, path: Path | None) -> None:
        """Has a problem's reference lowered while another problem is optimised: its turn then begins seconds earlier.

        Whatever is wrong with it is told in its turn.
        """
        self._end_reading()
        if path is not None:
            self._reading = threading.Thread(target=_read, args=(self.harness, path), daemon=True)
            self._reading.start()

    def close(self) -> None:
        self._end_reading()
        harness, self._open = self._open, None
        if harness is not None and harness is not self._given.harness:
            harness.close()

    def _end_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.join()


def _read(harness: Harness, path: Path) -> None:
    with suppress(WarpsmithError):
        harness.load(path)
