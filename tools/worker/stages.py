"""Wall seconds of the stages of an evaluation, and of single defences within them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stages:
    """`seconds` by name; a part of a stage is named `stage: part`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    @property
    def total_s(self) -> float:
        """All stages, their parts not counted twice."""
        return sum(seconds for name, seconds in self.seconds.items() if ": " not in name)
