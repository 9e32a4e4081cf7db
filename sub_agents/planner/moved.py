"""Elements at other places: flips, concatenation, padding."""

from collections.abc import Mapping, Sequence

from ...state.sizes import Size, product
from .addresses import INDEX
from .registry import Operator, cast, expands
from .tensors import Graph, Literals, Tensor, Uncovered

MOST_PARTS = 8
"""Tensors that are put together in one kernel."""


def whole(size: Size) -> int:
    """A size that must be a number. Raises Uncovered."""
    if not isinstance(size, int):
        raise Uncovered("a free size where elements move")
    return size


def places(graph: Graph, shape: Sequence[Size], dim: int) -> Tensor:
    """The index along a dimension."""
    return graph.iota(shape, dim, INDEX)


def counted(graph: Graph, op: str, a: Tensor | Literals, b: Tensor | Literals) -> Tensor:
    """Index arithmetic; steps that change nothing are left out."""
    if isinstance(a, Tensor) and type(b) is int and (op, b) in (("add", 0), ("sub", 0), ("mul", 1), ("floor_div", 1)):
        return a
    wide = any(isinstance(x, Tensor) and x.dtype == "int64" for x in (a, b))
    return graph.pointwise(op, a, b, dtype="int64" if wide else INDEX)


def within(graph: Graph, index: Tensor, low: bool, size: Size | None) -> Tensor | bool:
    """Whether an index is at least zero (asked for with `low`) and below a size; True where nothing is asked."""
    tests = [graph.pointwise("ge", index, 0, dtype="bool")] if low else []
    tests += [graph.pointwise("lt", index, size, dtype="bool")] if size is not None else []
    return every(graph, tests)


def every(graph: Graph, tests: Sequence[Tensor | bool]) -> Tensor | bool:
    """All of some conditions."""
    found: Tensor | bool = True
    for test in tests:
        if isinstance(test, Tensor):
            found = graph.pointwise("logical_and", found, test, dtype="bool") if isinstance(found, Tensor) else test
    return found


def guarded(graph: Graph, guard: Tensor | bool, x: Tensor, other: Literals | Tensor) -> Tensor:
    """x where the guard holds."""
    return graph.pointwise("where", guard, x, other, dtype=x.dtype) if isinstance(guard, Tensor) else x


class Compact:
    """A shape whose runs of dimensions without a part in a move are one dimension each."""

    def __init__(self, shape: Sequence[Size], moving: Sequence[int]) -> None:
        runs: list[list[int]] = []
        for d in range(len(shape)):
            if runs and d not in moving and runs[-1][-1] not in moving:
                runs[-1].append(d)
            else:
                runs.append([d])
        self.runs = runs
        self.shape = self.folded(shape)

    def folded(self, shape: Sequence[Size]) -> tuple[Size, ...]:
        """Another shape with its dimensions run together likewise."""
        return tuple(product(shape[d] for d in run) for run in self.runs)

    def place(self, dim: int) -> int:
        """Where a moving dimension is now."""
        return next(i for i, run in enumerate(self.runs) if dim in run)


def taken(
    graph: Graph, x: Tensor, compact: Compact, moved: Mapping[int, Tensor], guard: Tensor | bool = True
) -> Tensor:
    """x at other indices along some dimensions (those of the compact shape); its own shape is compact too."""
    source = graph.reshape(x, compact.folded(x.shape))
    indices = [moved.get(d) or places(graph, compact.shape, d) for d in range(len(compact.shape))]
    return graph.gather(source, indices, compact.shape, guard)


@expands("flip")
def _flip(op: Operator) -> Tensor:
    x, graph = op.tensor(0), op.graph
    if not x.shape:
        return copied(graph, x)
    dims = [d % len(x.shape) for d in op.arg(1, "dims")]
    if x.is_scan and graph.flips.get(x.operands[0], (x, ()))[1] == tuple(dims) == x.dims:
        # Flipped, added up and flipped back: added up from the other end.
        return graph.scan(x.op, graph.flips[x.operands[0]][0], x.dims[0], x.dtype, not x.args[1])
    compact = Compact(op.shape, dims)
    moved = {}
    for dim in map(compact.place, dims):
        last = counted(graph, "add", places(graph, compact.shape, dim), 1)
        moved[dim] = counted(graph, "sub", compact.shape[dim], last)
    found = graph.reshape(taken(graph, x, compact, moved), op.shape)
    graph.flips[found] = (x, tuple(dims))
    return found


@expands("cat", "concat", "concatenate")
def _cat(op: Operator) -> Tensor:
    graph, tensors = op.graph, op.arg(0, "tensors")
    # A tensor of shape [0] is left out, whatever the others' shapes are.
    parts = [x for x in tensors if isinstance(x, Tensor) and x.shape != (0,)]
    if not parts or len(parts) > MOST_PARTS:
        raise Uncovered(f"{len(parts)} tensors in one")
    dim = op.arg(1, "dim", 0) % len(op.shape)
    compact = Compact(op.shape, [dim])
    at = compact.place(dim)
    index = places(graph, compact.shape, at)
    end, found = whole(op.shape[dim]), None
    for x in reversed(parts):
        start = end - whole(x.shape[dim])
        low = graph.pointwise("ge", index, start, dtype="bool") if start > 0 else True
        high = graph.pointwise("lt", index, end, dtype="bool") if found is not None else True
        moved = {at: counted(graph, "sub", index, start)}
        part = cast(graph, taken(graph, x, compact, moved, every(graph, [low, high])), op.dtype)
        assert isinstance(part, Tensor)
        found = part if found is None else guarded(graph, high, part, found)
        end = start
    assert found is not None
    return graph.reshape(found, op.shape)


@expands("constant_pad_nd")
def _pad(op: Operator) -> Tensor:
    graph, x, amounts = op.graph, op.tensor(0), op.arg(1, "pad")
    rank = len(x.shape)
    before = {rank - 1 - i // 2: whole(amounts[i]) for i in range(0, len(amounts), 2)}
    after = {rank - 1 - i // 2: whole(amounts[i + 1]) for i in range(0, len(amounts), 2)}
    dims = [d for d in before if before[d] or after[d]]
    if not dims:
        return copied(graph, x)
    compact = Compact(op.shape, dims)
    moved, guards = {}, []
    for dim in dims:
        at = compact.place(dim)
        moved[at] = counted(graph, "sub", places(graph, compact.shape, at), before[dim])
        guards.append(within(graph, moved[at], before[dim] > 0, x.shape[dim] if after[dim] > 0 else None))
    guard = every(graph, guards)
    fill = cast(graph, op.arg(2, "value", 0) or 0, op.dtype)
    found = graph.reshape(guarded(graph, guard, taken(graph, x, compact, moved, guard), fill), op.shape)
    if fill == 0 and all(before[dim] >= 0 and after[dim] >= 0 for dim in dims):
        graph.padded[found] = (x, {dim: (before[dim], after[dim]) for dim in dims})
    return found


def copied(graph: Graph, x: Tensor) -> Tensor:
    """The same elements, in memory of their own."""
    return graph.pointwise("copy", x, dtype=x.dtype)
