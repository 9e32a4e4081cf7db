"""View operators: the same elements under other indices."""

from collections.abc import Sequence
from typing import Any

from ...state.sizes import Size, quotient
from .registry import Operator, expands
from .tensors import Graph, Tensor, Uncovered


@expands("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as", "unsqueeze", "squeeze")
def _reshape(op: Operator) -> Tensor:
    return op.graph.reshape(op.tensor(0), op.shape)


@expands("permute")
def _permute(op: Operator) -> Tensor:
    x = op.tensor(0)
    return op.graph.permute(x, [d % len(x.shape) for d in op.arg(1, "dims")])


@expands("transpose", "t", "swapaxes", "numpy_T", "mT")
def _transpose(op: Operator) -> Tensor:
    x = op.tensor(0)
    if len(x.shape) < 2:
        return x
    dims = (op.arg(1, "dim0"), op.arg(2, "dim1")) if op.name.startswith(("transpose", "swapaxes")) else (-2, -1)
    return transposed(op.graph, x, *dims)


def transposed(graph: Graph, x: Tensor, first: int = -2, second: int = -1) -> Tensor:
    """x with two dimensions exchanged."""
    order = list(range(len(x.shape)))
    first, second = first % len(order), second % len(order)
    order[first], order[second] = order[second], order[first]
    return graph.permute(x, order)


@expands("expand", "broadcast_to", "expand_as")
def _expand(op: Operator) -> Tensor:
    return op.graph.expand(op.tensor(0), op.shape)


@expands("repeat")
def _repeat(op: Operator) -> Tensor:
    x, times = op.tensor(0), op.arg(1, "repeats")
    shape = [*[1] * (len(times) - len(x.shape)), *x.shape]
    apart = [size for n, s in zip(times, shape, strict=True) for size in (1, s)]
    tiled = [size for n, s in zip(times, shape, strict=True) for size in (n, s)]
    return op.graph.reshape(op.graph.expand(op.graph.reshape(x, apart), tiled), op.shape)


def _start(start: Any, size: Size) -> int:
    if start is None:
        return 0
    if not isinstance(start, int):
        raise Uncovered("a slice that starts at a free size")
    if start >= 0:
        return min(start, size) if isinstance(size, int) else start
    if not isinstance(size, int):
        raise Uncovered("a slice from the end of a free dimension")
    return max(size + start, 0)


def _cut(op: Operator, x: Tensor, dim: int, start: int, step: int) -> Tensor:
    """A slice, computed alone where what it is cut from has no other use."""
    cut = op.graph.slice(x, dim, start, op.shape[dim], step)
    part = op.graph.parts.get(x) if cut is not x else None
    found = part(dim, start, step, op.shape[dim]) if part is not None else None
    return cut if found is None else found


@expands("slice")
def _slice(op: Operator) -> Tensor:
    x = op.tensor(0)
    dim = op.arg(1, "dim", 0) % len(x.shape)
    start = _start(op.arg(2, "start"), x.shape[dim])
    if op.shape[dim] == 0:
        start = 0
    return _cut(op, x, dim, start, op.arg(4, "step", 1))


@expands("narrow")
def _narrow(op: Operator) -> Tensor:
    x = op.tensor(0)
    dim = op.arg(1, "dim") % len(x.shape)
    return _cut(op, x, dim, _start(op.arg(2, "start"), x.shape[dim]), 1)


@expands("select")
def _select(op: Operator) -> Tensor:
    x = op.tensor(0)
    return selected(op.graph, x, op.arg(1, "dim") % len(x.shape), op.arg(2, "index"))


def selected(graph: Graph, x: Tensor, dim: int, index: Any) -> Tensor:
    """One element along a dimension, which is dropped."""
    return graph.squeeze(graph.slice(x, dim, _start(index, x.shape[dim]), 1), [dim])


@expands("unbind")
def _unbind(op: Operator) -> tuple[Tensor, ...]:
    x = op.tensor(0)
    dim = op.arg(1, "dim", 0) % len(x.shape)
    size = x.shape[dim]
    if not isinstance(size, int):
        raise Uncovered("unbind of a free dimension")
    return tuple(selected(op.graph, x, dim, i) for i in range(size))


@expands("split", "split_with_sizes", "chunk")
def _split(op: Operator) -> tuple[Tensor, ...]:
    x = op.tensor(0)
    dim = op.arg(2, "dim", 0) % len(x.shape)
    size, wanted = x.shape[dim], op.arg(1, "split_size")
    if not isinstance(size, int):
        return _split_evenly(x, dim, wanted)
    if op.name.startswith("chunk"):
        wanted = -(-size // wanted)
    sizes: Sequence[int] = (
        wanted if isinstance(wanted, list) else [min(wanted, size - at) for at in range(0, size, max(wanted, 1))]
    )
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(op.graph.slice(x, dim, at, length) for at, length in zip(starts, sizes, strict=True))


def _split_evenly(x: Tensor, dim: int, wanted: Any) -> tuple[Tensor, ...]:
    if quotient(x.shape[dim], wanted if isinstance(wanted, (int, str)) else 1) == 1:
        return (x,)
    raise Uncovered("splitting a free dimension")
