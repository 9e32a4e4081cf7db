"""Matrix products in every disguise as `(*batch, m, k) @ (*batch, k, n)`."""

from ...state.sizes import product
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
        found = product_of(graph, a, b, dtype)
    found = graph.reshape(found, shape)
    kept = (*batch, *([] if row else [shape[-2]]), *([] if column else [shape[-1]]))
    return graph.reshape(found, kept)


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
    sizes = dict(zip(left, tensors[0].shape, strict=True)) | dict(zip(right, tensors[1].shape, strict=True))
    a = _arranged(op.graph, tensors[0], left, [batch, rows, summed])
    b = _arranged(op.graph, tensors[1], right, [batch, summed, columns])
    found = product_of(op.graph, a, b, op.dtype)
    order = batch + rows + columns
    apart = op.graph.reshape(found, [sizes[c] for c in order])
    return op.graph.permute(apart, [order.index(c) for c in result])


def _arranged(graph: Graph, x: Tensor, labels: str, groups: list[list[str]]) -> Tensor:
    """x permuted to `groups`, the first of them left apart as the batch and the other two flattened."""
    moved = graph.permute(x, [labels.index(c) for group in groups for c in group])
    sizes = {c: x.shape[labels.index(c)] for c in labels}
    flat = [product(sizes[c] for c in group) for group in groups[1:]]
    return graph.reshape(moved, [*(sizes[c] for c in groups[0]), *flat])
