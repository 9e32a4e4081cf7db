"""One workload set up for measuring: the judge's shared buffers, the flush, and the calls on its own side."""

from typing import Any

import torch

from . import buffers, structure
from .clock import Stopwatch
from .expectation import clone_nested

_FLUSH_FACTOR = 3


class Flush:
    """Empties L2 by reading a buffer larger than it. Reading leaves no dirty lines behind, writing would."""

    def __init__(self, device: torch.device) -> None:
        self._buffer: torch.Tensor | None = None
        if device.type == "cuda":
            l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
            self._buffer = torch.zeros(_FLUSH_FACTOR * l2_bytes // 4, dtype=torch.int32, device=device)

    def __call__(self) -> None:
        if self._buffer is not None:
            self._buffer.max()
            torch.cuda.synchronize()


class Bench:
    """Shared input and output buffers of one workload; `sets` of each, one after the other."""

    def __init__(self, inputs: list[Any], outputs: list[torch.Tensor], device: torch.device, sets: int = 1) -> None:
        self.device = device
        self.sets = sets
        self.description, tensors = structure.flatten(inputs)
        self.input_layout = buffers.Layout([buffers.spec_of(tensor) for tensor in tensors])
        contiguous = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in outputs]
        self.output_layout = buffers.Layout([buffers.spec_of(tensor) for tensor in contiguous])
        self.source = buffers.allocate(self.input_layout.size_bytes * sets, device)
        self.sink = buffers.allocate(self.output_layout.size_bytes * sets, device)

    def input_tensors(self, index: int = 0) -> list[torch.Tensor]:
        """The judge's views of one input set."""
        return self._views(self.source, self.input_layout, index)

    def output_tensors(self, index: int = 0) -> list[torch.Tensor]:
        """The judge's views of what a candidate delivered for one input set."""
        return self._views(self.sink, self.output_layout, index)

    def arguments(self, index: int = 0) -> list[Any]:
        """One input set as forward's arguments, over the shared buffer."""
        return list(structure.unflatten(self.description, self.input_tensors(index)))

    def write(self, values: list[Any], index: int = 0, wait: bool = True) -> None:
        """Writes one draw into the shared buffer and poisons the outputs, then waits for both."""
        _, tensors = structure.flatten(values)
        for target, value in zip(self.input_tensors(index), tensors, strict=True):
            narrow_target, narrow_value = target, value
            for dim, stride in enumerate(target.stride()):
                if stride == 0 and target.shape[dim] > 1:
                    narrow_target = narrow_target.narrow(dim, 0, 1)
                    narrow_value = narrow_value.narrow(dim, 0, 1)
            narrow_target.copy_(narrow_value)
        self.poison(index)
        if wait:
            self.wait()

    def poison(self, index: int = 0) -> None:
        """Fills one output set with a pattern that is NaN in every floating type, so that unwritten elements show."""
        size = self.output_layout.size_bytes
        self.sink.bytes[index * size : (index + 1) * size].fill_(0xFF)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def message(self) -> tuple[dict[str, Any], list[int]]:
        """What a child needs to map this workload."""
        fields = {
            "inputs": self.input_layout.as_json(),
            "outputs": self.output_layout.as_json(),
            "arguments": self.description,
            "sets": self.sets,
        }
        fds = [self.source.export(), self.sink.export()]
        if self.device.type != "cuda":
            import os

            fds = [os.dup(descriptor) for descriptor in fds]
        return fields, fds

    def release(self) -> None:
        for buffer in (self.source, self.sink):
            if isinstance(buffer, buffers.DeviceBuffer):
                buffer.release()

    @staticmethod
    def _views(buffer: buffers.Buffer, layout: buffers.Layout, index: int) -> list[torch.Tensor]:
        shift = index * layout.size_bytes
        return [
            buffers.view(buffer, spec, offset + shift)
            for spec, offset in zip(layout.specs, layout.offsets, strict=True)
        ]


class OwnCalls:
    """Calls of a baseline in the judge's own process, timed as the child times the candidate."""

    def __init__(self, call: Any, device: torch.device) -> None:
        self.call = call
        self.stopwatch = Stopwatch(device)
        self.lead = Lead()

    def warm_up(self, arguments: list[Any], count: int = 3) -> None:
        """Runs a few times and learns how long the host takes to enqueue."""
        for _ in range(count):
            _, _, host_ms = self.stopwatch.time(self.call, clone_nested(arguments), 0.0)
            self.lead.learn(host_ms)

    def time(self, arguments: list[Any]) -> tuple[Any, float]:
        """One call: result and ms. `Lead.exposed` tells whether the launch was hidden."""
        result, milliseconds, host_ms = self.stopwatch.time(self.call, arguments, self.lead.ms)
        self.lead.learn(host_ms)
        return result, milliseconds


class Lead:
    """How long the GPU waits before a timed call, so that the host has enqueued all of it by then.

    A host that was idle takes several times as long as a warm one, so the margin is wide, and a call that was exposed
    all the same is told so that it can be measured again. Bounded: a call that synchronises gains nothing.
    """

    MARGIN = 3.0
    LEAST_MS = 0.3

    def __init__(self, longest_ms: float = 5.0) -> None:
        self.longest_ms = longest_ms
        self.ms = self.LEAST_MS
        self.exposed = False

    def learn(self, host_ms: float) -> None:
        """Takes in the host's time of one call."""
        self.exposed = host_ms > 0.9 * self.ms and self.ms < self.longest_ms
        if self.MARGIN * host_ms > self.ms:
            self.ms = min(self.longest_ms, self.MARGIN * host_ms + self.LEAST_MS)
