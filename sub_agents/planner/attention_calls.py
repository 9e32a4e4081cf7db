"""Calls of PyTorch's attention as the products and the softmax that they stand for."""

from math import sqrt

from ...state.sizes import Size, quotient
from .pointwise import Arithmetic
from .products import multiplied
from .reductions import dimensions, exponentials, safe_softmax
from .registry import Operator, expands
from .tensors import Graph, Tensor, Uncovered
from .views import transposed


@expands("scaled_dot_product_attention")
def _attention(op: Operator) -> Tensor:
    query, key, value = op.tensor(0, "query"), op.tensor(1, "key"), op.tensor(2, "value")
    mask, causal = op.arg(3, "attn_mask"), bool(op.arg(5, "is_causal", False))
    if op.arg(4, "dropout_p", 0.0):
        raise Uncovered("attention with dropout")
    if op.kwargs.get("enable_gqa"):
        key, value = (_for_each_head(op.graph, x, query.shape[-3]) for x in (key, value))
    depth, scale = query.shape[-1], op.kwargs.get("scale")
    e = Arithmetic(op.graph, op.dtype)
    scores = multiplied(op.graph, query, transposed(op.graph, key), op.dtype)
    if scale is None:
        scale = 1 / sqrt(depth) if isinstance(depth, int) else e("rsqrt", depth)
    scores = e("mul", scores, scale)
    if causal:
        scores = e.where(_right_of_diagonal(op.graph, scores), -float("inf"), scores)
    if isinstance(mask, Tensor):
        # As PyTorch does it: what is added to a score that is no number leaves none.
        scores = e("add", scores, e.where(mask, 0.0, -float("inf")) if mask.dtype == "bool" else mask)
    last = dimensions(scores, -1)
    if isinstance(mask, Tensor):
        weights = safe_softmax(e, scores, last)
    else:
        _, _, weight, total = exponentials(e, scores, last)
        weights = e.done(e("div", weight, total))
    return multiplied(op.graph, weights, value, op.dtype)


def _for_each_head(graph: Graph, x: Tensor, heads: Size) -> Tensor:
    """Keys or values of groups of heads, as a view with those of each head."""
    times = quotient(heads, x.shape[-3])
    if times is None:
        raise Uncovered("heads in groups of no one size")
    apart = graph.reshape(x, (*x.shape[:-2], 1, *x.shape[-2:]))
    wide = graph.expand(apart, (*x.shape[:-2], times, *x.shape[-2:]))
    return graph.reshape(wide, (*x.shape[:-3], heads, *x.shape[-2:]))


def _right_of_diagonal(graph: Graph, scores: Tensor) -> Tensor:
    rows, columns = (graph.iota(scores.shape, len(scores.shape) - back) for back in (2, 1))
    return graph.pointwise("gt", columns, rows, dtype="bool")
