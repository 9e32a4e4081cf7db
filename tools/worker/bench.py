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
    """Shared input and output buffers of one workload. `sets` > 1 keeps several input sets for bursts."""

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

    def write(self, values: list[Any], index: int = 0) -> None:
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
        self.lead_ms = 0.0

    def warm_up(self, arguments: list[Any], count: int = 3) -> Any:
        """Runs a few times and sets the lead so that the launch stays hidden."""
        result = None
        host = []
        for _ in range(count):
            result, _, host_ms = self.stopwatch.time(self.call, clone_nested(arguments), 0.0)
            host.append(host_ms)
        self.lead_ms = lead_for(min(host))
        return result

    def time(self, arguments: list[Any]) -> tuple[Any, float]:
        result, milliseconds, _ = self.stopwatch.time(self.call, arguments, self.lead_ms)
        return result, milliseconds


def lead_for(host_ms: float) -> float:
    """How long the GPU should wait for the host to enqueue one call, in ms. Bounded: a call that synchronises gains
    nothing from it."""
    return min(5.0, 1.5 * host_ms + 0.03)
