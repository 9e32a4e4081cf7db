"""Sliding windows, and pooling."""

import math
from collections.abc import Sequence
from typing import Any

from ...state.sizes import Size, product
from .moved import counted, every, guarded, places, whole, within
from .pointwise import Arithmetic
from .reductions import finished, reduced
from .registry import Operator, cast, expands, is_float
from .tensors import Axis, Graph, Tensor, Uncovered

MOST_WRITTEN_OUT = 9
"""Elements of a window up to which each has statements of its own; larger windows are reduced dimensions."""


def overruns(axis: Axis) -> bool:
    """Whether the last window may reach past the end, padding aside."""
    if not isinstance(axis.length, int) or not isinstance(axis.outputs, int):
        return True
    return (axis.outputs - 1) * axis.stride + (axis.size - 1) * axis.dilation - axis.padding >= axis.length


def index_of(graph: Graph, axis: Axis, output: Tensor, place: Tensor | int) -> Tensor:
    """Where an element of an output's window lies in the input."""
    start = counted(graph, "sub", counted(graph, "mul", output, axis.stride), axis.padding)
    if isinstance(place, int):
        return counted(graph, "add", start, place * axis.dilation)
    return counted(graph, "add", start, counted(graph, "mul", place, axis.dilation))


def guard_of(graph: Graph, axis: Axis, index: Tensor) -> Tensor | bool:
    """Whether an index lies in the input."""
    return within(graph, index, axis.padding > 0, axis.length if overruns(axis) else None)


def each(given: Any, count: int, default: int | None = None) -> list[int]:
    """One number a dimension, from one for all or none."""
    if given is None or given == []:
        return [whole(default)] * count if default is not None else []
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    return [whole(x) for x in (listed * count if len(listed) == 1 else listed)]


def axes_of(x: Tensor, shape: Sequence[Size], count: int, geometry: Sequence[Sequence[int]]) -> list[Axis]:
    """The windows along the last dimensions; geometry is sizes, strides, paddings and dilations."""
    places_of = zip(*geometry, x.shape[-count:], shape[-count:], strict=True)
    return [
        Axis(size, stride, padding, dilation, length, outputs, behind=padding)
        for size, stride, padding, dilation, length, outputs in places_of
    ]


class Windows:
    """All windows over the last dimensions of x; those before are one, `planes`."""

    def __init__(self, graph: Graph, x: Tensor, axes: Sequence[Axis]) -> None:
        self.graph, self.axes = graph, axes
        self.planes = product(x.shape[: len(x.shape) - len(axes)])
        self.x = graph.reshape(x, (self.planes, *x.shape[len(x.shape) - len(axes) :]))
        self.outputs = (self.planes, *(axis.outputs for axis in axes))
        self.count = math.prod(axis.size for axis in axes)

    def element(self, place: Sequence[int]) -> tuple[Tensor, Tensor | bool]:
        """One element of each window, and whether it lies in the input."""
        outputs = [places(self.graph, self.outputs, d + 1) for d in range(len(self.axes))]
        found = [index_of(self.graph, axis, o, p) for axis, o, p in zip(self.axes, outputs, place, strict=True)]
        return self._read(found, self.outputs)

    def spread(self) -> tuple[Tensor, Tensor | bool]:
        """All elements, in dimensions of their own between the planes and the outputs."""
        shape = (self.planes, *(axis.size for axis in self.axes), *self.outputs[1:])
        found = []
        for d, axis in enumerate(self.axes):
            output, place = (places(self.graph, shape, 1 + at) for at in (len(self.axes) + d, d))
            found.append(index_of(self.graph, axis, output, place))
        return self._read(found, shape)

    def _read(self, indices: list[Tensor], shape: tuple[Size, ...]) -> tuple[Tensor, Tensor | bool]:
        guard = every(self.graph, [guard_of(self.graph, axis, i) for axis, i in zip(self.axes, indices, strict=True)])
        return self.graph.gather(self.x, [places(self.graph, shape, 0), *indices], shape, guard), guard

    def places(self) -> list[tuple[int, ...]]:
        """Every place of a window, in memory order."""
        found: list[tuple[int, ...]] = [()]
        for axis in self.axes:
            found = [(*place, p) for place in found for p in range(axis.size)]
        return found

    def combined(self, op: str, reduction: str, fill: float, dtype: str) -> Tensor:
        """The windows' elements combined, with what lies outside the input as `fill`; of the shape `outputs`."""
        graph = self.graph
        if self.count > MOST_WRITTEN_OUT:
            elements, guard = self.spread()
            inner = range(1, 1 + len(self.axes))
            total = reduced(graph, reduction, guarded(graph, guard, elements, fill), inner, dtype)
            return graph.reshape(total, self.outputs)
        each_element = [guarded(graph, guard, x, fill) for x, guard in map(self.element, self.places())]
        total = each_element[0]
        for element in each_element[1:]:
            total = graph.pointwise(op, total, element, dtype=dtype)
        return total


def _pooled(op: Operator, count: int, dilations: Any) -> Windows:
    x = op.tensor(0)
    if not is_float(x.dtype):
        raise Uncovered("pooling of integers")
    sizes = each(op.arg(1, "kernel_size"), count)
    strides = each(op.arg(2, "stride"), count) or sizes
    paddings = each(op.arg(3, "padding"), count, 0)
    geometry = (sizes, strides, paddings, each(dilations, count, 1))
    return Windows(op.graph, x, axes_of(x, op.shape, count, geometry))


def _maximum(op: Operator, count: int) -> Tensor:
    windows = _pooled(op, count, op.arg(4, "dilation"))
    best = windows.combined("maximum", "reduce_max", -math.inf, op.dtype)
    return op.graph.reshape(best, op.shape)


@expands("max_pool2d", "max_pool1d", "max_pool3d")
def _max_pool(op: Operator) -> Tensor:
    return _maximum(op, int(op.name.split(".")[0][-2]))


@expands("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool_with_indices(op: Operator) -> tuple[Tensor, ...]:
    """The values alone: a reference that uses the indices keeps PyTorch's operator."""
    return (_maximum(op, int(op.name[len("max_pool")])),)


@expands("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _average(op: Operator) -> Tensor:
    count = int(op.name[len("avg_pool")])
    windows = _pooled(op, count, None)
    e, graph = Arithmetic(op.graph, op.dtype), op.graph
    total = windows.combined("add", "reduce_sum", 0.0, e.wide)
    padded, divisor = op.arg(5, "count_include_pad", True), op.arg(6, "divisor_override")
    ceiled = op.arg(4, "ceil_mode", False)
    short = any((overruns(a) and (ceiled or not padded)) or (a.padding > 0 and not padded) for a in windows.axes)
    if divisor is None and short:
        parts = [_covered(graph, windows, d, padded) for d in range(count)]
        elements = parts[0]
        for part in parts[1:]:
            elements = counted(graph, "mul", elements, part)
        found = e("div", total, cast(graph, elements, e.wide))
    else:
        found = e("div", total, float(divisor or windows.count))
    return graph.reshape(e.done(found), op.shape)


def _covered(graph: Graph, windows: Windows, dim: int, padded: bool) -> Tensor:
    """How many elements of each window count along a dimension: those of the input, its padding too if so asked."""
    axis = windows.axes[dim]
    output = places(graph, windows.outputs, dim + 1)
    start = counted(graph, "sub", counted(graph, "mul", output, axis.stride), axis.padding)
    last = whole(axis.length) + axis.padding if padded else axis.length
    end = counted(graph, "minimum", counted(graph, "add", start, axis.size), last)
    begin = start if padded else counted(graph, "maximum", start, 0)
    return counted(graph, "sub", end, begin)


@expands("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def _adaptive(op: Operator) -> Tensor:
    """Where every output averages as many elements as the next."""
    x, graph, e = op.tensor(0), op.graph, Arithmetic(op.graph, op.dtype)
    count = len(op.arg(1, "output_size"))
    lead = len(x.shape) - count
    parts: list[Size] = list(x.shape[:lead])
    for size, outputs in zip(x.shape[lead:], op.shape[lead:], strict=True):
        if whole(size) % whole(outputs):
            raise Uncovered("windows of several sizes")
        parts += [outputs, whole(size) // whole(outputs)]
    inner = [lead + 1 + 2 * d for d in range(count)]
    elements = math.prod(whole(parts[d]) for d in inner)
    total = reduced(graph, "reduce_sum", graph.reshape(x, parts), inner, e.wide)
    return finished(op, e("div", total, float(elements)), inner, keepdim=False)
