"""Expected values of a judge's draws, kept between candidates while memory allows."""

import gc
from typing import TYPE_CHECKING, Any

import torch

from ...state.problem import Workload
from .expectation import Expectation, expect, typical_bounds

if TYPE_CHECKING:
    from .judge import Judge

ALIKE = 8
"""Draws of a kind that tell what is typical of it, where an output has few elements."""
_KEPT_SHARE = 0.25
"""Of the GPU's memory, between candidates."""
_KEPT_ON_CPU_BYTES = 1 << 30


class KnownExpectations:
    """By workload, kind and number of the draw, and the weights it is for."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._known: dict[tuple[str, str, int, str], Expectation] = {}
        self._typical: dict[tuple[str, str, str], list[float]] = {}

    def of(self, workload: Workload, kind: str, number: int, weights: str) -> Expectation:
        """Of one draw."""
        key = (workload.name, kind, number, weights)
        found = self._known.get(key)
        if found is None:
            found = self.on(weights, self._judge.inputs(workload, kind, number))
            if found.few:
                found.expect_typical(self._typical_of(workload, kind, weights, {number: found}))
            self._keep(key, found)
        return found

    def on(self, weights: str, inputs: list[Any]) -> Expectation:
        """On any inputs. Where memory is short, what was kept for other candidates goes first."""
        judge = self._judge
        try:
            return expect(judge.models[weights], inputs, judge.unit_in)
        except torch.OutOfMemoryError:
            self.clear()
        # Not in the handler: what the failed attempt holds is let go with its exception.
        gc.collect()
        torch.cuda.empty_cache()
        return expect(judge.models[weights], inputs, judge.unit_in)

    def clear(self) -> None:
        """Forgets all: the draws are others now, or memory is short."""
        self._known.clear()
        self._typical.clear()

    def _typical_of(self, workload: Workload, kind: str, weights: str, made: dict[int, Expectation]) -> list[float]:
        """Bounds over several draws of the kind, one a leaf. `made`: what there is of them by number."""
        key = (workload.name, kind, weights)
        if key not in self._typical:
            numbers = range(ALIKE)
            alike = {n: made.get(n) or self.on(weights, self._judge.inputs(workload, kind, n)) for n in numbers}
            typical = self._typical[key] = typical_bounds(list(alike.values()))
            for number, each in alike.items():
                each.expect_typical(typical)
                self._keep((workload.name, kind, number, weights), each)
        return self._typical[key]

    def _keep(self, key: tuple[str, str, int, str], found: Expectation) -> None:
        kept_bytes = sum(leaf.oracle.nbytes for known in self._known.values() for leaf in known.leaves)
        device, most_bytes = self._judge.device, float(_KEPT_ON_CPU_BYTES)
        if device.type == "cuda":
            most_bytes = _KEPT_SHARE * torch.cuda.get_device_properties(device).total_memory
        if kept_bytes < most_bytes:
            self._known[key] = found
