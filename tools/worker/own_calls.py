"""The judge's own side of a measurement: a baseline's calls, and the memory that they read."""

from typing import Any

import torch

from . import buffers, structure
from .bench import copy_into
from .clock import Stopwatch
from .expectation import clone_nested
from .lead import Lead


class OwnInputs:
    """Memory for a baseline's inputs, of the kind that a candidate's lie in, and private.

    Both sides read from the same kind: at the limit of the DRAM it may matter which that is.
    """

    def __init__(self, inputs: list[Any], device: torch.device) -> None:
        _, tensors = structure.flatten(inputs)
        self._layout = buffers.Layout([buffers.spec_of(tensor) for tensor in tensors])
        self._buffer = buffers.allocate(self._layout.size_bytes, device)

    def take(self, values: list[Any]) -> list[Any]:
        """The values of one draw, in this memory until the next is taken."""
        description, tensors = structure.flatten(values)
        views = self._layout.views(self._buffer)
        for target, value in zip(views, tensors, strict=True):
            copy_into(target, value)
        return list(structure.unflatten(description, views))


class OwnCalls:
    """Calls of a baseline in the judge's own process, timed as the child times the candidate."""

    def __init__(self, call: Any, stopwatch: Stopwatch, inputs: OwnInputs | None = None) -> None:
        self.call = call
        self.stopwatch = stopwatch
        self.inputs = inputs
        self.lead = Lead()
        self.host_ms = 0.0
        """The host's time to enqueue the last call."""
        self.late = False

    def warm_up(self, arguments: list[Any], count: int) -> None:
        """Runs a few times and learns how long the host takes to enqueue."""
        for _ in range(count):
            reading = self.stopwatch.time(self.call, clone_nested(arguments), 0.0)
            self.lead.learn(reading.host_ms)

    def placed(self, values: list[Any], changes: bool = True) -> list[Any]:
        """A draw to call with: copies, or the values themselves where a call changes nothing and has no memory."""
        if self.inputs is not None:
            return self.inputs.take(values)
        return list(clone_nested(values)) if changes else values

    def time(self, arguments: list[Any]) -> tuple[Any, float]:
        """One call: result and ms. `Lead.exposed` tells whether the launch was hidden."""
        reading = self.stopwatch.time(self.call, arguments, self.lead.ms)
        self.lead.learn(reading.host_ms)
        self.host_ms, self.late = reading.host_ms, reading.late
        return reading.result, reading.ms
