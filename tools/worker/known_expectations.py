"""Expected values of a judge's draws, kept between candidates while memory allows."""

import gc
from typing import TYPE_CHECKING, Any

import torch

from ...state.problem import Workload
from . import oracle
from .expectation import Expectation, expect, rms

if TYPE_CHECKING:
    from .judge import Judge

ALIKE = 8
"""Draws of a kind that tell what is typical of it. Later ones are looked at once, and not kept."""
_KEPT_SHARE = 0.25
"""Of the GPU's memory, between candidates."""
_KEPT_ON_CPU_BYTES = 1 << 30


class KnownExpectations:
    """By workload, kind and number of the draw, and the weights it is for."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._known: dict[tuple[str, str, int, str], Expectation] = {}
        self._bounds: dict[tuple[str, str, str], list[tuple[list[int], list[float]]]] = {}
        """Of the first draws of a kind: the inputs that each changes, and a bound a leaf."""

    def of(self, workload: Workload, kind: str, number: int, weights: str) -> Expectation:
        """Of one draw."""
        key = (workload.name, kind, number, weights)
        found = self._known.get(key)
        if found is None:
            found = self.on(weights, self._judge.inputs(workload, kind, number))
            if number < ALIKE and self._room_to_keep():
                self._known[key] = found
        return found

    def on(self, weights: str, inputs: list[Any]) -> Expectation:
        """On any inputs; where memory is short, what was kept for others goes first. Raises InvalidProblem."""
        try:
            return self._expect(weights, inputs)
        except torch.OutOfMemoryError:
            self.clear()
        # Not in the handler: what the failed attempt holds is let go with its exception.
        gc.collect()
        torch.cuda.empty_cache()
        return self._expect(weights, inputs)

    def _expect(self, weights: str, inputs: list[Any]) -> Expectation:
        judge = self._judge
        try:
            return expect(judge.models[weights], inputs, judge.unit_in)
        except oracle.NoAnswer as error:
            raise judge.module.fault(str(error)) from error

    def typical(self, like: Expectation, workload: Workload, kind: str, weights: str) -> list[float]:
        """For each leaf the rms of its bound over the first draws of a kind: those that change the same inputs."""
        key = (workload.name, kind, weights)
        if key not in self._bounds:
            made = (self.of(workload, kind, number, weights) for number in range(ALIKE))
            self._bounds[key] = [(each.mutated, [leaf.bound_rms for leaf in each.leaves]) for each in made]
        alike = [bounds for mutated, bounds in self._bounds[key] if mutated == like.mutated]
        own = [leaf.bound_rms for leaf in like.leaves]
        return [rms(list(column)) for column in zip(*(alike or [own]), strict=True)]

    def clear(self) -> None:
        """Forgets all: the draws are others now, or memory is short."""
        self._known.clear()
        self._bounds.clear()

    def _room_to_keep(self) -> bool:
        device, most_bytes = self._judge.device, float(_KEPT_ON_CPU_BYTES)
        if device.type == "cuda":
            most_bytes = _KEPT_SHARE * torch.cuda.get_device_properties(device).total_memory
        return sum(each.size_bytes for each in self._known.values()) < most_bytes
