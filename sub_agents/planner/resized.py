"""Resizing: elements repeated, or weighted between their neighbours."""

from ...state.sizes import Size, quotient
from .moved import Compact, copied, counted, places, taken, whole
from .registry import Operator, expands, is_float
from .tensors import Graph, Tensor, Uncovered

MOST_TIMES = 40
"""How often an element is repeated at most: PyTorch multiplies by a rounded factor, which shows from 41 on."""


@expands("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def _nearest(op: Operator) -> Tensor:
    graph, x = op.graph, op.tensor(0)
    dims = [d for d in range(2, len(x.shape)) if op.shape[d] != x.shape[d] or _scale(op, 2, d) not in (None, 1.0)]
    factors = {d: _factor(op, x, d) for d in dims}
    compact = Compact(op.shape, dims)
    moved = {
        compact.place(d): counted(graph, "floor_div", places(graph, compact.shape, compact.place(d)), factors[d])
        for d in dims
    }
    return graph.reshape(taken(graph, x, compact, moved), op.shape) if dims else copied(graph, x)


def _factor(op: Operator, x: Tensor, dim: int) -> int:
    """How often each element is repeated. Raises Uncovered where that is no whole number."""
    times = quotient(op.shape[dim], x.shape[dim])
    if not isinstance(times, int) or times > MOST_TIMES or _scale(op, 2, dim) not in (None, times):
        raise Uncovered("resizing by a fraction, or by much")
    return times


def _scale(op: Operator, first: int, dim: int) -> float | None:
    """The factor given for a dimension: one that its sizes do not show makes devices differ from each other."""
    scales = op.arg(first, "scale_factors") if ".vec" in op.name else op.args[first:]
    given = [s for s in scales or () if s is not None]
    return given[min(dim - 2, len(given) - 1)] if given else None


@expands("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def _linear(op: Operator) -> Tensor:
    """Each element between its neighbours, weighted by how near they are; one dimension after the other."""
    found = op.tensor(0)
    if op.dtype == "float64" or not is_float(op.dtype):
        raise Uncovered(f"resizing {op.dtype}")
    given = {dim: _scale(op, 3, dim) for dim in range(2, len(op.shape))}
    dims = [dim for dim in given if op.shape[dim] != found.shape[dim] or given[dim] not in (None, 1.0)]
    for dim in dims:
        shape = (*found.shape[:dim], op.shape[dim], *found.shape[dim + 1 :])
        steps = _steps(op, found, dim, given[dim])
        # All of them apart in each: else a reshape would have to be undone by division at each place.
        found = op.graph.reshape(_between(op.graph, found, Compact(shape, dims), dim, steps), shape)
    return found


def _steps(op: Operator, x: Tensor, dim: int, given: float | None) -> tuple[float | Tensor, float]:
    """Where output i lies in the input: i and the second number, times the first, less the second."""
    many, one = op.shape[dim], x.shape[dim]
    if op.arg(2, "align_corners"):
        return (0.0 if many == 1 else _ratio(op.graph, one, many, 1)), 0.0
    times = quotient(many, one)
    if isinstance(times, int):
        if given not in (None, times):
            raise Uncovered("resizing by a factor that the sizes do not show")
        return 1.0 / times, 0.5
    if given is not None and given != whole(many) / whole(one):
        raise Uncovered("resizing by a factor that the sizes do not show")
    return _ratio(op.graph, one, many, 0), 0.5


def _ratio(graph: Graph, one: Size, many: Size, less: int) -> float | Tensor:
    """The quotient of two sizes, both by so much less: a number, or computed by the kernel where they are free."""
    if isinstance(one, int) and isinstance(many, int):
        return (one - less) / (many - less)
    parts = (
        float(size - less)
        if isinstance(size, int)
        else graph.pointwise("cast", counted(graph, "sub", size, less), dtype="float32")
        for size in (one, many)
    )
    return graph.pointwise("div", *parts, dtype="float32")


def _between(graph: Graph, x: Tensor, compact: Compact, dim: int, steps: tuple[float | Tensor, float]) -> Tensor:
    step, half = steps
    at = compact.place(dim)
    index = places(graph, compact.shape, at)
    place = graph.pointwise("cast", index, dtype="float32")
    # In PyTorch's order: where a place falls on an element, rounding decides between two.
    place = graph.pointwise("add", place, half, dtype="float32") if half else place
    place = graph.pointwise("mul", place, step, dtype="float32")
    place = graph.pointwise("sub", place, half, dtype="float32") if half else place
    place = graph.pointwise("maximum", place, 0.0, dtype="float32")
    lower = graph.pointwise("floor", place, dtype="float32")
    share = graph.pointwise("sub", place, lower, dtype="float32")
    first = graph.pointwise("cast", lower, dtype="int32")
    last = counted(graph, "sub", x.shape[dim], 1)
    # As far from the index itself: so it is counted in the kernel's own type of indices.
    first = counted(graph, "sub", index, counted(graph, "sub", index, first))
    first = counted(graph, "minimum", first, last)
    second = counted(graph, "minimum", counted(graph, "add", first, 1), last)
    low, high = (taken(graph, x, compact, {at: row}) for row in (first, second))
    rest = graph.pointwise("sub", 1.0, share, dtype="float32")
    parts = (graph.pointwise("mul", x, weight, dtype="float32") for x, weight in ((low, rest), (high, share)))
    return graph.pointwise("add", *parts, dtype=x.dtype)
