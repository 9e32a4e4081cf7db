"""Reductions and normalisations as primitives: sums over any dimensions, variance in two passes, softmax, norms."""

import math
from collections.abc import Sequence
from typing import Any

from ...state.sizes import Size, product
from .picked import gathered
from .pointwise import Arithmetic, truth
from .registry import Operator, as_operand, cast, expands, is_float, literal
from .tensors import Graph, Tensor, Uncovered

REDUCING = {"sum": "reduce_sum", "amax": "reduce_max", "amin": "reduce_min", "prod": "reduce_prod"}
REDUCING |= {"any": "reduce_any", "all": "reduce_all", "mean": "reduce_sum"}


def dimensions(x: Tensor, dims: Any) -> tuple[int, ...]:
    """Dimensions as sorted non-negative numbers; None and the empty list mean all."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return tuple(range(len(x.shape)))
    listed = dims if isinstance(dims, (list, tuple)) else [dims]
    return tuple(sorted({d % len(x.shape) for d in listed})) if x.shape else ()


def count(e: Arithmetic, x: Tensor, dims: Sequence[int]) -> Any:
    """How many elements are reduced: a float literal, or a computed one where a size is symbolic."""
    size = product(x.shape[d] for d in dims)
    return float(size) if isinstance(size, int) else as_operand(e.graph, size, e.wide)


def reduced(graph: Graph, op: str, x: Tensor, dims: Sequence[int], dtype: str) -> Tensor:
    """A reduction that keeps its dimensions; those of size 1 need no reducing."""
    wide = [d for d in dims if x.shape[d] != 1]
    if wide:
        if 0 in [x.shape[d] for d in wide] and op not in ("reduce_sum", "reduce_prod", "reduce_any", "reduce_all"):
            raise Uncovered(f"{op} over no elements")
        rows = _rows_of(x)
        if op in REDUCING.values() and rows and set(rows) < set(wide):
            # What rows were reduced for is reduced with them, rather than stored to be read again.
            x = graph.reduce(op, x, rows, dtype)
            wide = [d for d in wide if d not in rows]
        return graph.reduce(op, x, wide, dtype)
    if op in ("reduce_argmax", "reduce_argmin"):
        return literal(graph, 0, "int64", x.shape)
    return x if x.dtype == dtype else graph.pointwise("cast", x, dtype=dtype)


def _rows_of(x: Tensor) -> tuple[int, ...]:
    """Dimensions that something was reduced over for each element of x; none where there is nothing, or several."""
    seen, waiting, found = set[Tensor](), [x], set[tuple[int, ...]]()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        if current.kind == "pointwise" and current.op != "gather" or current.kind == "expand":
            waiting += current.operands
        elif current.kind == "reduce":
            found.add(current.dims)
    return found.pop() if len(found) == 1 else ()


def mean(e: Arithmetic, x: Tensor, dims: Sequence[int]) -> Tensor:
    """The mean in the compute type, dimensions kept."""
    total = reduced(e.graph, "reduce_sum", widened(e, x), dims, e.wide)
    return total if all(x.shape[d] == 1 for d in dims) else e("div", total, count(e, x, dims))


def widened(e: Arithmetic, x: Tensor) -> Tensor:
    """x in the category of the compute type (integers become floats, halves stay as they are)."""
    found = as_operand(e.graph, x, e.wide)
    assert isinstance(found, Tensor)
    return found


def variance(e: Arithmetic, x: Tensor, dims: Sequence[int], correction: float) -> tuple[Tensor, Tensor, Tensor]:
    """Variance, mean and deviations: the mean of squared deviations, sound where the mean is far above the spread."""
    centre = mean(e, x, dims)
    deviation = e("sub", x, centre)
    total = reduced(e.graph, "reduce_sum", e("square", deviation), dims, e.wide)
    size = product(x.shape[d] for d in dims)
    if isinstance(size, int):
        divisor: Any = float(max(size - correction, 0))
        if divisor == 0:
            # Infinite, or not a number where all deviations are 0.
            return e("div", total, e("mul", total, 0.0)), centre, deviation
    else:
        divisor = count(e, x, dims)
        divisor = e("maximum", e("sub", divisor, float(correction)), 0.0) if correction else divisor
    return e("div", total, divisor), centre, deviation


def finished(op: Operator, x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    """The result in its own type and shape."""
    e = Arithmetic(op.graph, op.dtype)
    labelled = _labelled(e, x)
    return labelled if keepdim else op.graph.squeeze(labelled, dims)


def _labelled(e: Arithmetic, x: Tensor) -> Tensor:
    if x.dtype == e.dtype:
        return x
    if x.kind == "reduce":
        return e.graph.reduce(x.op, x.operands[0], x.dims, e.dtype)
    return e.done(x)


@expands("sum", "amax", "amin", "prod", "any", "all", "mean")
def _reduce(op: Operator) -> Tensor:
    name, overload = op.name.split(".")[:2]
    x = op.tensor(0)
    whole = overload == "default" and name in ("sum", "prod", "any", "all", "mean")
    dims = dimensions(x, None if whole else op.arg(1, "dim"))
    keepdim = bool(not whole and op.arg(2, "keepdim", False))
    e = Arithmetic(op.graph, op.dtype)
    if name in ("any", "all"):
        source = truth(op.graph, x)
        assert isinstance(source, Tensor)
        return finished(op, reduced(op.graph, REDUCING[name], source, dims, "bool"), dims, keepdim)
    if name == "mean":
        return finished(op, mean(e, x, dims), dims, keepdim)
    if name in ("amax", "amin") and op.dtype == "bool":
        raise Uncovered(f"{name} of bool")
    return finished(op, reduced(op.graph, REDUCING[name], widened(e, x), dims, e.wide), dims, keepdim)


@expands("argmax", "argmin", "max", "min")
def _extremum(op: Operator) -> Tensor | tuple[Tensor, Tensor]:
    name, overload = op.name.split(".")[:2]
    x = op.tensor(0)
    if x.dtype == "bool":
        raise Uncovered(f"{name} of bool")
    if overload == "other":
        e = Arithmetic(op.graph, op.dtype)
        return e.done(e("maximum" if name == "max" else "minimum", x, op.tensor(1)))
    dims = dimensions(x, op.arg(1, "dim"))
    keepdim = bool(op.arg(2, "keepdim", False))
    index = reduced(op.graph, f"reduce_arg{name[-3:]}", x, dims, "int64")
    if name.startswith("arg"):
        return index if keepdim else op.graph.squeeze(index, dims)
    value = reduced(op.graph, f"reduce_{name}", x, dims, x.dtype)
    if overload == "default":
        return op.graph.squeeze(value, dims)
    return (value, index) if keepdim else (op.graph.squeeze(value, dims), op.graph.squeeze(index, dims))


_RUNNING = {"cumsum": "scan_sum", "cumprod": "scan_prod", "cummax": "scan_max", "cummin": "scan_min"}


@expands(*_RUNNING)
def _running(op: Operator) -> Tensor | tuple[Tensor, ...]:
    """Of cummax and cummin the values alone."""
    name, x = op.name.split(".")[0], op.tensor(0)
    extremum = name in ("cummax", "cummin")
    if (extremum and not is_float(x.dtype)) or op.dtype == "bool":
        raise Uncovered(f"{name} of {x.dtype}")
    if not x.shape:
        return op.graph.pointwise("cast", x, dtype=op.dtype)
    e = Arithmetic(op.graph, op.dtype)
    source = x if extremum else cast(op.graph, x, e.wide) if not is_float(x.dtype) else x
    assert isinstance(source, Tensor)
    found = op.graph.scan(_RUNNING[name], source, op.arg(1, "dim") % len(x.shape), op.dtype)
    return (found,) if extremum else found


@expands("var", "std", "var_mean", "std_mean")
def _variance(op: Operator) -> Tensor | tuple[Tensor, Tensor]:
    name, overload = op.name.split(".")[:2]
    x = op.tensor(0)
    correction: Any = op.kwargs.get("correction", 1)
    if overload == "correction":
        dims, keepdim = dimensions(x, op.arg(1, "dim")), op.kwargs.get("keepdim", False)
    elif overload == "dim":
        dims, correction = dimensions(x, op.arg(1, "dim")), int(op.arg(2, "unbiased", True))
        keepdim = op.arg(3, "keepdim", False)
    else:
        dims, correction, keepdim = dimensions(x, None), int(op.arg(1, "unbiased", True)), False
    e = Arithmetic(op.graph, op.dtype)
    found, centre, _ = variance(e, x, dims, 1 if correction is None else correction)
    spread = finished(op, e("sqrt", found) if name.startswith("std") else found, dims, keepdim)
    return (spread, finished(op, centre, dims, keepdim)) if name.endswith("mean") else spread


@expands("linalg_vector_norm", "norm")
def _norm(op: Operator) -> Tensor:
    x = op.tensor(0)
    order = op.arg(1, "ord", op.kwargs.get("p", 2))
    order = 2 if order is None else order
    dims, keepdim = dimensions(x, op.arg(2, "dim")), bool(op.arg(3, "keepdim", False))
    e = Arithmetic(op.graph, op.dtype)
    size = e("abs", x)
    if order in (math.inf, -math.inf):
        found = reduced(op.graph, "reduce_max" if order > 0 else "reduce_min", size, dims, e.wide)
    elif order == 2:
        found = e("sqrt", reduced(op.graph, "reduce_sum", e("square", x), dims, e.wide))
    elif order == 1:
        found = reduced(op.graph, "reduce_sum", size, dims, e.wide)
    elif order == 0:
        nonzero = op.graph.pointwise("cast", e.test("ne", x, 0), dtype=e.wide)
        found = reduced(op.graph, "reduce_sum", nonzero, dims, e.wide)
    else:
        power = e("mul", e("square", size), size) if order == 3 else e("pow", size, float(order))
        found = e("pow", reduced(op.graph, "reduce_sum", power, dims, e.wide), 1 / order)
    return finished(op, found, dims, keepdim)


def exponentials(e: Arithmetic, x: Tensor, dims: Sequence[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Maximum, x minus it, the exponential of that, and its sum."""
    x = widened(e, x)
    peak = reduced(e.graph, "reduce_max", x, dims, e.wide)
    shifted = e("sub", x, peak)
    weight = e("exp", shifted)
    return peak, shifted, weight, reduced(e.graph, "reduce_sum", weight, dims, e.wide)


@expands("_softmax", "_log_softmax", "softmax", "log_softmax", "_safe_softmax")
def _softmax(op: Operator) -> Tensor:
    e, x = Arithmetic(op.graph, op.dtype), op.tensor(0)
    if not is_float(op.dtype):
        raise Uncovered("softmax of integers")
    dims = dimensions(x, op.arg(1, "dim"))
    if op.name.startswith("_safe"):
        return safe_softmax(e, x, dims)
    _, shifted, weight, total = exponentials(e, x, dims)
    return e.done(e("sub", shifted, e("log", total)) if "log" in op.name else e("div", weight, total))


def safe_softmax(e: Arithmetic, x: Tensor, dims: Sequence[int]) -> Tensor:
    """A softmax in which what has -inf alone to share becomes zero."""
    peak, _, weight, total = exponentials(e, x, dims)
    return e.done(e.where(e.test("eq", peak, -math.inf), 0.0, e("div", weight, total)))


@expands("logsumexp")
def _logsumexp(op: Operator) -> Tensor:
    e, x = Arithmetic(op.graph, op.dtype), op.tensor(0)
    dims = dimensions(x, op.arg(1, "dim"))
    peak, _, _, total = exponentials(e, x, dims)
    # An infinite maximum is the answer itself: the shifted terms are not numbers there.
    found = e.where(e.test("isinf", peak), peak, e("add", e("log", total), peak))
    return finished(op, found, dims, bool(op.arg(2, "keepdim", False)))


def _affine(e: Arithmetic, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = e("mul", x, weight) if weight is not None else x
    return e.done(e("add", x, bias) if bias is not None else x)


@expands("native_layer_norm", "layer_norm")
def _layer_norm(op: Operator) -> Tensor | tuple[Tensor, ...]:
    e, x = Arithmetic(op.graph, op.dtype), op.tensor(0)
    shape, weight, bias = op.arg(1, "normalized_shape"), op.arg(2, "weight"), op.arg(3, "bias")
    dims = tuple(range(len(x.shape) - len(shape), len(x.shape)))
    found, centre, deviation = variance(e, x, dims, 0)
    spread = e("rsqrt", e("add", found, op.arg(4, "eps", 1e-5)))
    result = _affine(e, e("mul", deviation, spread), weight, bias)
    return result if op.name.startswith("layer_norm") else (result, centre, spread)


@expands("rms_norm", "_fused_rms_norm")
def _rms_norm(op: Operator) -> Tensor | tuple[Tensor, ...]:
    e, x = Arithmetic(op.graph, op.dtype), op.tensor(0)
    shape, weight, eps = op.arg(1, "normalized_shape"), op.arg(2, "weight"), op.arg(3, "eps")
    if eps is None:
        eps = {"float16": 2.0**-23, "bfloat16": 2.0**-23, "float32": 2.0**-23, "float64": 2.0**-52}[x.dtype]
    dims = tuple(range(len(x.shape) - len(shape), len(x.shape)))
    spread = e("rsqrt", e("add", mean(e, e("square", x), dims), eps))
    result = _affine(e, e("mul", x, spread), weight, None)
    return (result, spread) if op.name.startswith("_fused") else result


def _per_channel(graph: Graph, x: Tensor | None, shape: Sequence[Size], at: int) -> Tensor | None:
    """A vector over channels, shaped to broadcast along dimension `at`."""
    if x is None:
        return None
    return graph.reshape(x, [size if d == at else 1 for d, size in enumerate(shape)])


@expands("native_group_norm", "group_norm")
def _group_norm(op: Operator) -> Tensor | tuple[Tensor, ...]:
    e, x, graph = Arithmetic(op.graph, op.dtype), op.tensor(0), op.graph
    whole = op.name.startswith("group_norm")
    weight, bias = (op.arg(2, "weight"), op.arg(3, "bias")) if whole else (op.arg(1, "weight"), op.arg(2, "bias"))
    groups = op.arg(1, "num_groups") if whole else op.arg(6, "group")
    eps = op.arg(4, "eps", 1e-5) if whole else op.arg(7, "eps")
    channels = x.shape[1]
    if not isinstance(channels, int) or not isinstance(groups, int):
        raise Uncovered("group norm over a free number of channels")
    grouped = (x.shape[0], groups, channels // groups, *x.shape[2:])
    folded = graph.reshape(x, grouped)
    found, centre, deviation = variance(e, folded, range(2, len(grouped)), 0)
    spread = e("rsqrt", e("add", found, eps))
    normal = graph.reshape(e("mul", deviation, spread), x.shape)
    channel_wise = [_per_channel(graph, v, x.shape, 1) for v in (weight, bias)]
    result = _affine(e, normal, *channel_wise)
    return result if whole else (result, centre, spread)


@expands("_native_batch_norm_legit_no_training")
def _batch_norm(op: Operator) -> tuple[Tensor, ...]:
    e, x, graph = Arithmetic(op.graph, op.dtype), op.tensor(0), op.graph
    names = ("weight", "bias", "running_mean", "running_var")
    weight, bias, centre, spread = (
        _per_channel(graph, op.arg(i + 1, name), x.shape, 1) for i, name in enumerate(names)
    )
    assert centre is not None
    assert spread is not None
    scale = e("rsqrt", e("add", spread, op.arg(6, "eps")))
    result = _affine(e, e("mul", e("sub", x, centre), scale), weight, bias)
    return (result,)


@expands("gather")
def _gather(op: Operator) -> Tensor:
    """One element along a dimension, as a sum of the one that the index picks."""
    x, index = op.tensor(0), op.tensor(2, "index")
    dim = op.dimension(1, "dim", x)
    others_fit = all(a == b for d, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if d != dim)
    if index.shape[dim] != 1 or not others_fit or x.shape[dim] == 1:
        return gathered(op.graph, x, dim, index)
    e = Arithmetic(op.graph, op.dtype)
    position = op.graph.iota(x.shape, dim)
    picked = op.graph.pointwise("eq", position, index, dtype="bool")
    return _labelled(e, reduced(op.graph, "reduce_sum", e.where(picked, x, 0), [dim], e.wide))


@expands("_native_batch_norm_legit_functional")
def _training_batch_norm(op: Operator) -> tuple[Tensor, ...]:
    """Statistics of the batch, and the running ones moved towards them."""
    e, x, graph = Arithmetic(op.graph, op.dtype), op.tensor(0), op.graph
    momentum = op.arg(6, "momentum")
    if not op.arg(5, "training") or momentum is None or len(x.shape) < 2:
        raise Uncovered("batch norm without a momentum")
    weight, bias = (_per_channel(graph, op.arg(i, name), x.shape, 1) for i, name in ((1, "weight"), (2, "bias")))
    dims = [d for d in range(len(x.shape)) if d != 1]
    found, centre, deviation = variance(e, x, dims, 0)
    spread = e("rsqrt", e("add", found, op.arg(7, "eps")))
    result = _affine(e, e("mul", deviation, spread), weight, bias)
    size = count(e, x, dims)
    if size == 1.0:
        raise Uncovered("batch norm of single elements")
    # The running variance is that of a sample.
    share = size / (size - 1.0) if isinstance(size, float) else e("div", size, e("sub", size, 1.0))
    unbiased = e("mul", found, share)
    running = [
        _moved(e, graph.squeeze(new, dims), op.tensor(i, name), momentum)
        for i, name, new in ((3, "running_mean", centre), (4, "running_var", unbiased))
    ]
    return (result, graph.squeeze(centre, dims), graph.squeeze(spread, dims), *running)


def _moved(e: Arithmetic, new: Tensor, old: Tensor, momentum: float) -> Tensor:
    total = e("add", e("mul", new, momentum), e("mul", old, 1 - momentum))
    return Arithmetic(e.graph, old.dtype).done(total)


@expands("_native_batch_norm_legit.no_stats")
def _instance_norm(op: Operator) -> tuple[Tensor, ...]:
    e, x, graph = Arithmetic(op.graph, op.dtype), op.tensor(0), op.graph
    weight, bias = (_per_channel(graph, op.arg(i, name), x.shape, 1) for i, name in ((1, "weight"), (2, "bias")))
    found, centre, deviation = variance(e, x, [d for d in range(len(x.shape)) if d != 1], 0)
    spread = e("rsqrt", e("add", found, op.arg(5, "eps")))
    result = _affine(e, e("mul", deviation, spread), weight, bias)
    kept = [d for d in range(len(x.shape)) if d != 1]
    return (result, graph.squeeze(centre, kept), graph.squeeze(spread, kept))
