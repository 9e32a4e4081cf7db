"""Elements at indices that the reference computes or is given: embeddings, index selection, gathers, diagonals."""

from collections.abc import Sequence
from typing import Any

from ...state.sizes import Size
from .moved import Compact, counted, every, guarded, places, taken, whole, within
from .registry import INTEGERS, Operator, cast, expands
from .tensors import Graph, Tensor, Uncovered, broadcast_shape


def checked(graph: Graph, index: Tensor, size: Size) -> Tensor | bool:
    """Whether an index that comes from data is in bounds: nothing is read elsewhere, whatever the data are."""
    return within(graph, index, True, size)


def wrapped(graph: Graph, index: Tensor, size: Size) -> Tensor:
    """An index that may count from the end."""
    negative = graph.pointwise("lt", index, 0, dtype="bool")
    return graph.pointwise("where", negative, counted(graph, "add", index, size), index, dtype=index.dtype)


def _integers(graph: Graph, index: Any) -> Tensor:
    """Indices that are data: as wide as they can be, since they are multiplied. Bytes would be a mask."""
    if not isinstance(index, Tensor) or index.dtype not in INTEGERS or index.dtype == "uint8":
        raise Uncovered("indices that are no integers")
    found = cast(graph, index, "int64")
    assert isinstance(found, Tensor)
    return found


def _along(op: Operator, x: Tensor, dim: int, index: Tensor) -> Tensor:
    """x with one dimension exchanged for those of an index."""
    graph = op.graph
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    # The index's dimensions as one: then the others stay as they are.
    flat = graph.view(index, [-1]) if len(index.shape) != 1 else index
    joined = (*x.shape[:dim], *flat.shape, *x.shape[dim + 1 :])
    compact = Compact(joined, [dim])
    at = compact.place(dim)
    spread = graph.reshape(flat, [size if d == at else 1 for d, size in enumerate(compact.shape)])
    moved = graph.expand(spread, compact.shape)
    guard = checked(graph, moved, x.shape[dim])
    return graph.reshape(guarded(graph, guard, taken(graph, x, compact, {at: moved}, guard), 0), shape)


@expands("index_select")
def _index_select(op: Operator) -> Tensor:
    x = op.tensor(0)
    return _along(op, x, op.dimension(1, "dim", x), _integers(op.graph, op.tensor(2, "index")))


@expands("embedding")
def _embedding(op: Operator) -> Tensor:
    return _along(op, op.tensor(0, "weight"), 0, _integers(op.graph, op.tensor(1, "indices")))


@expands("index")
def _index(op: Operator) -> Tensor:
    graph, x, given = op.graph, op.tensor(0), op.arg(1, "indices")
    chosen = {d: _integers(graph, index) for d, index in enumerate(given) if index is not None}
    dims = list(chosen)
    if len(dims) == 1:
        (dim,) = dims
        return _along(op, x, dim, wrapped(graph, chosen[dim], x.shape[dim]))
    block = broadcast_shape([index.shape for index in chosen.values()])
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    first = dims[0] if adjacent else 0
    kept = [d for d in range(len(x.shape)) if d not in chosen]
    # Where each kept dimension is in the result: before the block of indices, or behind it.
    at = {
        d: d if adjacent and d < first else first + len(block) + kept.index(d) - (first if adjacent else 0)
        for d in kept
    }
    moved, guards = {}, []
    for dim, index in chosen.items():
        placed = graph.expand(_placed(graph, graph.expand(index, block), op.shape, first), op.shape)
        moved[dim] = wrapped(graph, placed, x.shape[dim])
        guards.append(checked(graph, moved[dim], x.shape[dim]))
    indices = [moved[d] if d in moved else places(graph, op.shape, at[d]) for d in range(len(x.shape))]
    guard = every(graph, guards)
    return guarded(graph, guard, graph.gather(x, indices, op.shape, guard), 0)


def _placed(graph: Graph, index: Tensor, shape: Sequence[Size], first: int) -> Tensor:
    """A block of indices with dimensions of size 1 around it, where the result has others."""
    behind = len(shape) - first - len(index.shape)
    return graph.reshape(index, (*[1] * first, *index.shape, *[1] * behind))


@expands("take_along_dim")
def _take_along(op: Operator) -> Tensor:
    x = op.tensor(0)
    return gathered(op.graph, x, op.dimension(2, "dim", x), _integers(op.graph, op.tensor(1, "indices")))


def gathered(graph: Graph, x: Tensor, dim: int, index: Tensor) -> Tensor:
    """`torch.gather`: the index has as many dimensions as x and says where along one of them."""
    guard = checked(graph, index, x.shape[dim])
    indices = [index if d == dim else places(graph, index.shape, d) for d in range(len(x.shape))]
    return guarded(graph, guard, graph.gather(x, indices, index.shape, guard), 0)


@expands("diagonal")
def _diagonal(op: Operator) -> Tensor:
    graph, x = op.graph, op.tensor(0)
    offset, first, second = op.arg(1, "offset", 0), op.arg(2, "dim1", 0), op.arg(3, "dim2", 1)
    first, second = first % len(x.shape), second % len(x.shape)
    along = places(graph, op.shape, len(op.shape) - 1)
    kept = [d for d in range(len(x.shape)) if d not in (first, second)]
    indices = [places(graph, op.shape, kept.index(d)) if d in kept else along for d in range(len(x.shape))]
    indices[first] = counted(graph, "add", along, max(-whole(offset), 0))
    indices[second] = counted(graph, "add", along, max(whole(offset), 0))
    return graph.gather(x, indices, op.shape)
