"""One workload set up for measuring: the judge's shared buffers, and the flush."""

import os
from dataclasses import dataclass
from typing import Any

import torch

from . import buffers, layouts, structure

_FLUSH_FACTOR = 3
_DECOYS = 4


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


@dataclass(frozen=True)
class BenchPlan:
    """How many sets of buffers, and how inputs lie in them."""

    sets: int = 2
    layout: layouts.Name = "plain"


class Bench:
    """Shared buffers of one workload: `sets` of inputs and outputs, at addresses of their own.

    Every draw goes to a set that nobody can predict: a candidate that keeps a pointer computes from stale values.
    """

    def __init__(self, inputs: list[Any], outputs: list[torch.Tensor], device: torch.device, plan: BenchPlan) -> None:
        self.device = device
        self.sets = plan.sets
        self.description, tensors = structure.flatten(inputs)
        specs = [layouts.SPECS[plan.layout](buffers.spec_of(tensor)) for tensor in tensors]
        self.input_layout = buffers.Layout(specs, layouts.skew_bytes(plan.layout, specs))
        contiguous = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in outputs]
        self.output_layout = buffers.Layout([buffers.spec_of(tensor) for tensor in contiguous])
        self.source = buffers.allocate(self.input_layout.size_bytes * self.sets, device)
        try:
            self.sink = buffers.allocate(self.output_layout.size_bytes * self.sets, device)
        except torch.OutOfMemoryError:
            if isinstance(self.source, buffers.DeviceBuffer):
                self.source.release()
            raise
        self.current = 0
        """The set that the last draw was written to."""
        self._decoys: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def input_tensors(self, index: int | None = None) -> list[torch.Tensor]:
        """The judge's views of one input set, by default the current one."""
        return self._views(self.source, self.input_layout, index)

    def output_tensors(self, index: int | None = None) -> list[torch.Tensor]:
        """The judge's views of what a candidate delivered for one input set, by default the current one."""
        return self._views(self.sink, self.output_layout, index)

    def write(self, values: list[Any], index: int | None = None, misled: bool = False) -> None:
        """Writes one draw to a set (by default any), poisons its outputs, and waits for both.

        Where `misled`, a few elements of every floating input have other values of the same tensor until `restore`, and
        never the right ones before: whoever reads ahead of the call, or while the cache is emptied, reads wrong ones.
        """
        self.current = int.from_bytes(os.urandom(4), "little") % self.sets if index is None else index
        if not misled:
            self._decoys = []
        _, tensors = structure.flatten(values)
        for target, value in zip(self.input_tensors(), tensors, strict=True):
            changed = self._mislead(target, value) if misled else None
            copy_into(target, value)
            if changed is not None:
                flat, places, right = changed
                flat[places] = right
        self.poison()
        self.wait()

    def poison(self) -> None:
        """Fills the current outputs with a pattern that is NaN in every floating type: unwritten elements show."""
        size = self.output_layout.size_bytes
        self.sink.bytes[self.current * size : (self.current + 1) * size].fill_(0xFF)

    def _mislead(
        self, target: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
        """Changes elements of `value` before it is copied; gives back what to put right in it, and notes it for
        `target`."""
        if not value.is_floating_point() or value.numel() < 2 or value.stride() != target.stride():
            return None
        shown, flat = _flat(target), _flat(value)
        places, others = torch.randint(flat.numel(), (2, _DECOYS), device=flat.device, generator=self._generator())
        right = flat[places]
        flat[places] = flat[others]
        self._decoys.append((shown, places, right))
        return flat, places, right

    def restore(self) -> None:
        """Puts the right values back, and waits."""
        for flat, places, values in reversed(self._decoys):
            flat[places] = values
        self._decoys = []
        self.wait()

    def _generator(self) -> torch.Generator:
        if self._random is None:
            self._random = torch.Generator(device=self.device)
            self._random.manual_seed(int.from_bytes(os.urandom(7), "little"))
        return self._random

    _random: torch.Generator | None = None

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
            fds = [os.dup(descriptor) for descriptor in fds]
        return fields, fds

    def release(self) -> None:
        for buffer in (self.source, self.sink):
            if isinstance(buffer, buffers.DeviceBuffer):
                buffer.release()

    def _views(self, buffer: buffers.Buffer, layout: buffers.Layout, index: int | None) -> list[torch.Tensor]:
        return layout.views(buffer, (self.current if index is None else index) * layout.size_bytes)


def copy_into(target: torch.Tensor, value: torch.Tensor) -> None:
    """Copies a tensor to one of the same layout, elements that expanded dimensions share once."""
    for dim, stride in enumerate(target.stride()):
        if stride == 0 and target.shape[dim] > 1:
            target, value = target.narrow(dim, 0, 1), value.narrow(dim, 0, 1)
    target.copy_(value)


class Copies:
    """All that a candidate delivers, in memory of the judge's own: what is written after `take` comes too late."""

    def __init__(self, bench: Bench, mutated: list[int]) -> None:
        self._bench, self._mutated = bench, mutated
        self._sink = _Flat(torch.empty_like(bench.sink.bytes))
        self._source = _Flat(torch.empty_like(bench.source.bytes)) if mutated else None
        self.size_bytes = self._sink.bytes.numel() + (self._source.bytes.numel() if self._source else 0)

    def take(self) -> None:
        """Copies outputs, and inputs where the reference changes some, and waits."""
        self._sink.bytes.copy_(self._bench.sink.bytes)
        if self._source is not None:
            self._source.bytes.copy_(self._bench.source.bytes)
        self._bench.wait()

    def leaves(self, index: int) -> list[torch.Tensor]:
        """The outputs of one set, then the inputs that the reference changes."""
        bench = self._bench
        found = bench.output_layout.views(self._sink, index * bench.output_layout.size_bytes)
        if self._source is not None:
            inputs = bench.input_layout.views(self._source, index * bench.input_layout.size_bytes)
            found += [inputs[i] for i in self._mutated]
        return found


@dataclass(frozen=True)
class _Flat:
    bytes: torch.Tensor


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Everything between a tensor's first and last element, as one dimension."""
    return tensor.as_strided((buffers.storage_bytes(buffers.spec_of(tensor)) // tensor.element_size(),), (1,))
