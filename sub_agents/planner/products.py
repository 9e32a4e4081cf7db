"""Matrix products in every disguise as `(*batch, m, k) @ (*batch, k, n)`."""

from collections.abc import Iterator
from itertools import product as pairs

from ...state.sizes import Size, product
from .batches import refined
from .pointwise import Arithmetic
from .registry import Operator, expands, is_float
from .strided import viewable
from .tensors import Graph, Tensor, Uncovered, broadcast_shape
from .views import transposed


def multiplied(graph: Graph, a: Tensor, b: Tensor, dtype: str) -> Tensor:
    """`torch.matmul`'s rules for ranks and broadcasting."""
    if not is_float(dtype) or a.dtype != b.dtype:
        raise Uncovered("a matrix product of integers or of mixed types")
    if 0 in (*a.shape, *b.shape):
        raise Uncovered("an empty matrix product")
    row, column = len(a.shape) == 1, len(b.shape) == 1
    a = graph.reshape(a, (1, *a.shape)) if row else a
    b = graph.reshape(b, (*b.shape, 1)) if column else b
    batch = broadcast_shape([a.shape[:-2], b.shape[:-2]])
    shape = (*batch, a.shape[-2], b.shape[-1])
    if all(s == 1 for s in b.shape[:-2]) and viewable(rows := graph.reshape(a, (product(a.shape[:-1]), a.shape[-1]))):
        # One matrix for all: the batch is more rows.
        found = product_of(graph, rows, graph.reshape(b, b.shape[-2:]), dtype)
    else:
        wide = tuple(size for size in batch if size != 1)
        a = graph.reshape(graph.expand(a, (*batch, *a.shape[-2:])), (*wide, *a.shape[-2:]))
        b = graph.reshape(graph.expand(b, (*batch, *b.shape[-2:])), (*wide, *b.shape[-2:]))
        found = product_of(graph, *_in_finer_batch(graph, a, b), dtype)
    found = graph.reshape(found, shape)
    kept = (*batch, *([] if row else [shape[-2]]), *([] if column else [shape[-1]]))
    return graph.reshape(found, kept)


def _in_finer_batch(graph: Graph, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both factors with their batch cut as it was before views joined it, where nothing has to be copied then.

    Heads that share keys are such a batch: heads by groups, and only groups have keys of their own.
    """
    if viewable(a) and viewable(b):
        return a, b
    for shape in (shape for x in (a, b) for shape in _shapes_behind(x)):
        for end in range(len(a.shape) - 1, len(shape) + 1):
            batch = tuple(size for size in shape[:end] if size != 1)
            if refined(batch, a.shape[:-2]) != batch:
                continue
            apart = [graph.reshape(x, (*batch, *x.shape[-2:])) for x in (a, b)]
            if all(viewable(x) for x in apart):
                return apart[0], apart[1]
    return a, b


def _shapes_behind(x: Tensor) -> Iterator[tuple[Size, ...]]:
    """Of the views that x is a view of."""
    while x.is_view:
        (x,) = x.operands
        yield x.shape


def product_of(graph: Graph, a: Tensor, b: Tensor, dtype: str) -> Tensor:
    """The primitive, over copies of operands that are no strided views."""
    a, b = (x if viewable(x) else graph.pointwise("copy", x, dtype=x.dtype) for x in (a, b))
    return graph.matmul(a, b, dtype)


@expands("mm", "bmm", "matmul", "dot", "mv")
def _matmul(op: Operator) -> Tensor:
    return multiplied(op.graph, op.tensor(0), op.tensor(1), op.dtype)


@expands("linear")
def _linear(op: Operator) -> Tensor:
    x, weight, bias = op.tensor(0), op.tensor(1), op.arg(2, "bias")
    weight = transposed(op.graph, weight) if len(weight.shape) == 2 else weight
    found = multiplied(op.graph, x, weight, op.dtype)
    return op.graph.pointwise("add", found, bias, dtype=op.dtype) if isinstance(bias, Tensor) else found


@expands("addmm", "baddbmm", "addmv")
def _addmm(op: Operator) -> Tensor:
    e = Arithmetic(op.graph, op.dtype)
    found = multiplied(op.graph, op.tensor(1), op.tensor(2), op.dtype)
    beta, alpha = op.kwargs.get("beta", 1), op.kwargs.get("alpha", 1)
    found = found if alpha == 1 else e("mul", found, alpha)
    if beta == 0:
        return found
    added = op.tensor(0) if beta == 1 else e("mul", op.tensor(0), beta)
    return e.done(e("add", found, added))


@expands("einsum")
def _einsum(op: Operator) -> Tensor:
    """Two operands with one product between them; anything else stays in PyTorch."""
    equation, tensors = op.args[0].replace(" ", ""), op.args[1]
    if "->" not in equation or "." in equation or len(tensors) != 2:
        raise Uncovered(f"einsum {equation}")
    sources, result = equation.split("->")
    left, right = sources.split(",")
    if any(len(set(part)) != len(part) for part in (left, right, result)):
        raise Uncovered(f"einsum {equation}")
    batch = [c for c in left if c in right and c in result]
    summed = [c for c in left if c in right and c not in result]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    if not summed or any(c not in result for c in rows + columns):
        raise Uncovered(f"einsum {equation}")
    one, other = (tensors[0], left), (tensors[1], right)
    tried = [
        *_arranged(op.graph, one, other, [batch, rows, summed, columns]),
        *_arranged(op.graph, other, one, [batch, columns, summed, rows]),
    ]

    def cost(arrangement: tuple[list[str], Tensor, Tensor]) -> tuple[bool, int, bool]:
        # Best without copies, then with the largest matrices, then in the order that the result is wanted in.
        order, *factors = arrangement
        return not all(map(viewable, factors)), len(factors[0].shape), order != list(result)

    order, a, b = min(tried, key=cost)
    sizes = dict(zip(left, tensors[0].shape, strict=True)) | dict(zip(right, tensors[1].shape, strict=True))
    apart = op.graph.reshape(product_of(op.graph, a, b, op.dtype), [sizes[c] for c in order])
    return op.graph.permute(apart, [order.index(c) for c in result])


def _arranged(
    graph: Graph, one: tuple[Tensor, str], other: tuple[Tensor, str], labels: list[list[str]]
) -> Iterator[tuple[list[str], Tensor, Tensor]]:
    """The factors and the labels of their product, with more and more rows and columns in the batch.

    Labels are those of the batch, rows, sums and columns. Rows that others lie between are no one dimension in memory:
    as a batch they need not be copied.
    """
    batch, rows, summed, columns = labels
    for first, second in sorted(pairs(range(len(rows) + 1), range(len(columns) + 1)), key=sum):
        apart = [*batch, *rows[:first], *columns[:second]]
        a = _flattened(graph, one, other, apart, (rows[first:], summed))
        b = _flattened(graph, other, one, apart, (summed, columns[second:]))
        yield [*apart, *rows[first:], *columns[second:]], a, b


def _flattened(
    graph: Graph, own: tuple[Tensor, str], other: tuple[Tensor, str], batch: list[str], groups: tuple[list[str], ...]
) -> Tensor:
    """A factor over the batch, which it may have a part of only, and each group as one dimension."""
    (x, labels), (beside, others) = own, other
    sizes = dict(zip(others, beside.shape, strict=True)) | dict(zip(labels, x.shape, strict=True))
    moved = graph.permute(x, [labels.index(c) for c in (*batch, *sum(groups, [])) if c in labels])
    flat = [product(sizes[c] for c in group) for group in groups]
    narrow = graph.reshape(moved, [*(sizes[c] if c in labels else 1 for c in batch), *flat])
    return graph.expand(narrow, (*(sizes[c] for c in batch), *flat))
