"""Convolutions: products of weights and windows, or loops over the windows of each channel by itself."""

from dataclasses import dataclass, replace

from ...state.sizes import Size, product
from .moved import copied, guarded, whole
from .pointwise import Arithmetic
from .products import multiplied
from .reductions import reduced
from .registry import Operator, expands, is_float
from .strided import viewable
from .tensors import Axis, Graph, Tensor, Uncovered
from .windows import MOST_WRITTEN_OUT, Windows, axes_of, each

_GEOMETRY = ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1))


@expands("conv1d", "conv2d", "conv3d")
def _convolution(op: Operator) -> Tensor:
    graph, x, weight, bias = op.graph, op.tensor(0), op.tensor(1, "weight"), op.arg(2, "bias")
    count = int(op.name[len("conv")])
    if len(x.shape) != count + 2 or not is_float(op.dtype):
        raise Uncovered("a convolution of one image")
    if 0 in (*x.shape, *weight.shape, *op.shape):
        raise Uncovered("an empty convolution")
    groups = whole(op.arg(6, "groups", 1))
    if graph.apart and not groups == x.shape[1] == weight.shape[0]:
        raise Uncovered("a convolution by PyTorch's library")
    x, axes = _without_padding(graph, x, _axes(op, x, weight, count))
    shaped = graph.reshape(bias, (1, weight.shape[0], *[1] * count)) if isinstance(bias, Tensor) else None
    return Convolution(x, weight, shaped, groups, tuple(axes), op.shape, op.dtype).made(graph)


def _axes(op: Operator, x: Tensor, weight: Tensor, count: int) -> list[Axis]:
    sizes = [whole(size) for size in weight.shape[2:]]
    named = op.arg(4, "padding", 0)
    if not isinstance(named, str):
        geometry = (sizes, *(each(op.arg(i, name), count, default) for i, name, default in _GEOMETRY))
        return axes_of(x, op.shape, count, geometry)
    strides, dilations = each(op.arg(3, "stride"), count, 1), each(op.arg(5, "dilation"), count, 1)
    around = [dilation * (size - 1) * (named == "same") for size, dilation in zip(sizes, dilations, strict=True)]
    axes = axes_of(x, op.shape, count, (sizes, strides, [n // 2 for n in around], dilations))
    return [replace(axis, behind=n - n // 2) for axis, n in zip(axes, around, strict=True)]


def _without_padding(graph: Graph, x: Tensor, axes: list[Axis]) -> tuple[Tensor, list[Axis]]:
    """The windows over what was padded with zeros: they read those where there is nothing to read."""
    inside, around = graph.padded.get(x, (x, {}))
    if any(dim < 2 for dim in around):
        return x, axes
    moved = []
    for dim, axis in enumerate(axes, start=2):
        before, behind = around.get(dim, (0, 0))
        padding, behind = axis.padding + before, axis.behind + behind
        moved.append(replace(axis, padding=padding, behind=behind, length=inside.shape[dim]))
    return inside, moved


@dataclass(frozen=True)
class Convolution:
    """One that is to be computed, or a part of one: `shape` and `dtype` are its result's, the bias broadcasts to it."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    groups: int
    axes: tuple[Axis, ...]
    shape: tuple[Size, ...]
    dtype: str

    def made(self, graph: Graph) -> Tensor:
        """All channels at a point, or a product of weights and windows.

        Beside PyTorch's library, only windows of each channel by itself are kernels, as loops: it is not good at those.
        """
        e = Arithmetic(graph, self.dtype)
        if graph.apart:
            windows = Windows(graph, self.x, self.axes)
            written = _written_out if windows.count <= MOST_WRITTEN_OUT else _weighted_sum
            total = written(e, windows, self.weight, self.shape)
        elif all(_is_point(axis) for axis in self.axes) and self.groups == 1:
            total = self._at_points(graph)
        else:
            total = self._windows_by_weights(graph)
        found = e.done(e("add", total, self.bias) if self.bias is not None else total)
        graph.parts[found] = lambda dim, start, step, length: self._part(graph, dim, start, step, length)
        return found

    def _part(self, graph: Graph, dim: int, start: int, step: int, length: Size) -> Tensor | None:
        """A slice of its result, computed alone; None where that is no convolution."""
        if dim < 2 or length == 0 or start * self.axes[dim - 2].stride > self.axes[dim - 2].padding:
            return None
        axis = self.axes[dim - 2]
        padding, stride = axis.padding - start * axis.stride, axis.stride * step
        cut = replace(axis, padding=padding, stride=stride, outputs=length)
        cut = replace(cut, behind=_reach_behind(cut))
        axes = tuple(cut if d == dim else each for d, each in enumerate(self.axes, start=2))
        shape = tuple(length if d == dim else size for d, size in enumerate(self.shape))
        return replace(self, axes=axes, shape=shape).made(graph)

    def _at_points(self, graph: Graph) -> Tensor:
        """Channels added up at each point: a matrix product for each image."""
        points = graph.reshape(self.x, (*self.x.shape[:2], product(self.x.shape[2:])))
        found = multiplied(graph, graph.reshape(self.weight, self.weight.shape[:2]), points, self.dtype)
        return graph.reshape(found, self.shape)

    def _windows_by_weights(self, graph: Graph) -> Tensor:
        """The product of weights and windows, of each image and group; windows are read where they lie in the input."""
        inputs, outputs = whole(self.weight.shape[1]), whole(self.weight.shape[0]) // self.groups
        images = self.x.shape[0]
        parted = graph.reshape(self.x, (images, self.groups, inputs, *self.x.shape[2:]))
        windows = graph.unfold(parted if viewable(parted) else copied(graph, parted), self.axes)
        taps = windows.shape[-2]
        weights = graph.reshape(self.weight, (1, self.groups, outputs, taps))
        weights = weights if viewable(weights) else copied(graph, weights)  # Channels are last in memory, say.
        weights = graph.expand(weights, (images, self.groups, outputs, taps))
        return graph.reshape(graph.matmul(weights, windows, self.dtype), self.shape)


def _reach_behind(axis: Axis) -> int:
    """How far the last window reaches past the end; what is known of it where sizes are free."""
    reach = (axis.size - 1) * axis.dilation - axis.padding
    if axis.outputs == axis.length and axis.stride == 1:
        return max(0, reach)
    if isinstance(axis.outputs, int) and isinstance(axis.length, int):
        return max(0, (axis.outputs - 1) * axis.stride + reach - axis.length + 1)
    return axis.behind


def _is_point(axis: Axis) -> bool:
    return (axis.size, axis.stride, axis.padding, axis.outputs) == (1, 1, 0, axis.length)


def _written_out(e: Arithmetic, windows: Windows, weight: Tensor, shape: tuple[Size, ...]) -> Tensor:
    graph = e.graph
    terms: list[Tensor] = []
    for place in windows.places():
        element, guard = windows.element(place)
        factor = weight
        for d, p in enumerate(place):
            factor = graph.slice(factor, d + 2, p, 1)
        factor = graph.reshape(factor, (1, shape[1], *[1] * len(place)))
        terms.append(e("mul", graph.reshape(guarded(graph, guard, element, 0.0), shape), factor))
    total = terms[0]
    for term in terms[1:]:
        total = e("add", total, term)
    return total


def _weighted_sum(e: Arithmetic, windows: Windows, weight: Tensor, shape: tuple[Size, ...]) -> Tensor:
    graph, count = e.graph, len(windows.axes)
    elements, guard = windows.spread()
    inner = [axis.size for axis in windows.axes]
    parted = (*shape[:2], *inner, *shape[2:])
    factor = graph.reshape(weight, (1, shape[1], *inner, *[1] * count))
    product_of = e("mul", graph.reshape(guarded(graph, guard, elements, 0.0), parted), factor)
    dims = range(2, 2 + count)
    return graph.squeeze(reduced(graph, "reduce_sum", product_of, dims, e.wide), dims)
