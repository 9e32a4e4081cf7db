"""Pointwise aten operators as primitives, with PyTorch's type rules."""

import math

from .registry import (
    BITS,
    EXPANSIONS,
    INTEGERS,
    Operator,
    as_operand,
    cast,
    common_dtype,
    compute_dtype,
    expands,
    is_float,
    literal,
)
from .tensors import Graph, Literals, Tensor, Uncovered

Operand = Tensor | Literals


class Arithmetic:
    """Writes expressions in the compute type of a result; the last statement takes the result's own type."""

    def __init__(self, graph: Graph, dtype: str) -> None:
        self.graph = graph
        self.dtype = dtype
        self.wide = compute_dtype(dtype) if is_float(dtype) else dtype

    def __call__(self, op: str, *args: Operand, dtype: str | None = None) -> Tensor:
        return self.graph.pointwise(op, *(as_operand(self.graph, a, self.wide) for a in args), dtype=dtype or self.wide)

    def test(self, op: str, *args: Operand) -> Tensor:
        """A comparison or classification: bool."""
        return self.graph.pointwise(op, *(as_operand(self.graph, a, self.wide) for a in args), dtype="bool")

    def where(self, condition: Tensor, a: Operand, b: Operand) -> Tensor:
        a, b = (as_operand(self.graph, x, self.wide) for x in (a, b))
        return self.graph.pointwise("where", condition, a, b, dtype=self.wide)

    def done(self, x: Tensor) -> Tensor:
        """The same element, labelled with the result's type: no rounding of its own."""
        if x.dtype == self.dtype:
            return x
        if x.kind == "permute":
            return self.graph.permute(self.done(x.operands[0]), x.dims)
        if x.kind != "pointwise" or not x.operands or "float64" in (x.dtype, self.dtype):
            return self.cast(x)
        return self.graph.pointwise(x.op, *x.args, dtype=self.dtype)

    def cast(self, x: Tensor) -> Tensor:
        found = cast(self.graph, x, self.dtype)
        assert isinstance(found, Tensor)
        return found


def arithmetic(op: Operator) -> Arithmetic:
    """Expressions for an operator's result; refuses types without programs."""
    return Arithmetic(op.graph, op.dtype)


UNARY = {"sgn": "sign"}
UNARY |= {name: name for name in ("neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin")}
UNARY |= {name: name for name in ("cos", "tanh", "erf", "sigmoid", "relu", "floor", "ceil", "round", "trunc", "sign")}
UNARY |= {name: name for name in ("reciprocal", "square")}


def _unary(op: Operator) -> Tensor:
    x = op.tensor(0)
    name = op.name.split(".")[0]
    if name == "round" and len(op.args) + len(op.kwargs) > 1:
        raise Uncovered("rounding to decimals")
    if not is_float(op.dtype) and name in ("floor", "ceil", "round", "trunc"):
        return x
    if op.dtype == "bool":
        raise Uncovered(f"{name} of bool")
    e = arithmetic(op)
    return e.done(e(UNARY[name], x))


for _name in UNARY:
    EXPANSIONS[_name] = _unary


@expands("add", "sub", "rsub")
def _add(op: Operator) -> Tensor:
    a, b = op.arg(0, "self"), op.arg(1, "other")
    alpha = op.arg(2, "alpha", 1)
    if op.name.startswith("rsub"):
        a, b = b, a
    name = "add" if op.name.startswith("add") else "sub"
    if op.dtype == "bool":
        return op.graph.pointwise("logical_or", a, b, dtype="bool")
    e = arithmetic(op)
    if alpha != 1:
        b = e("mul", b, alpha) if isinstance(b, Tensor) else b * alpha
    return e.done(e(name, a, b))


@expands("mul")
def _mul(op: Operator) -> Tensor:
    a, b = op.arg(0, "self"), op.arg(1, "other")
    if op.dtype == "bool":
        return op.graph.pointwise("logical_and", a, b, dtype="bool")
    e = arithmetic(op)
    return e.done(e("mul", a, b))


@expands("div")
def _div(op: Operator) -> Tensor:
    mode = op.kwargs.get("rounding_mode")
    e = arithmetic(op)
    a, b = op.arg(0, "self"), op.arg(1, "other")
    if mode is None:
        return e.done(e("div", a, b))
    if mode == "floor":
        return e.done(e("floor_div", a, b))
    if not is_float(op.dtype):
        raise Uncovered("integer division rounding to zero")
    return e.done(e("trunc", e("div", a, b)))


SIMPLE_BINARY = {
    "maximum": "maximum",
    "minimum": "minimum",
    "fmod": "fmod",
    "remainder": "remainder",
    "floor_divide": "floor_div",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
}


def _binary(op: Operator) -> Tensor:
    name = SIMPLE_BINARY[op.name.split(".")[0]]
    a, b = op.arg(0, "self"), op.arg(1, "other")
    if op.dtype == "bool":
        logical = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}
        logical |= {"maximum": "logical_or", "minimum": "logical_and"}
        return op.graph.pointwise(logical[name], a, b, dtype="bool")
    e = arithmetic(op)
    return e.done(e(name, a, b))


for _name in SIMPLE_BINARY:
    EXPANSIONS[_name] = _binary


@expands("eq", "ne", "lt", "le", "gt", "ge")
def _compare(op: Operator) -> Tensor:
    name = op.name.split(".")[0]
    operands = [op.arg(0, "self"), op.arg(1, "other")]
    dtype = common_dtype(operands)
    if dtype == "bool":
        if name not in ("eq", "ne"):
            dtype = "int64"
        else:
            differ = op.graph.pointwise("logical_xor", *operands, dtype="bool")
            return differ if name == "ne" else op.graph.pointwise("logical_not", differ, dtype="bool")
    return op.graph.pointwise(name, *(as_operand(op.graph, x, dtype) for x in operands), dtype="bool")


def truth(graph: Graph, x: Operand) -> Operand:
    """x as bool: nonzero."""
    if not isinstance(x, Tensor):
        return bool(x)
    return x if x.dtype == "bool" else graph.pointwise("ne", x, 0.0 if is_float(x.dtype) else 0, dtype="bool")


@expands("logical_and", "logical_or", "logical_xor", "logical_not")
def _logical(op: Operator) -> Tensor:
    return op.graph.pointwise(op.name.split(".")[0], *(truth(op.graph, x) for x in op.args), dtype="bool")


@expands("__lshift__", "__rshift__", "bitwise_left_shift", "bitwise_right_shift")
def _shift(op: Operator) -> Tensor:
    """By a number: a product, or a quotient that rounds down, as an arithmetic shift does."""
    amount = op.arg(1, "other")
    if not isinstance(amount, int) or not 0 <= amount < BITS[op.dtype] - 1 or op.dtype not in INTEGERS:
        raise Uncovered("a shift by other than a number")
    name = "mul" if "left" in op.name or "lshift" in op.name else "floor_div"
    return op.graph.pointwise(name, op.tensor(0), 1 << amount, dtype=op.dtype)


@expands("bitwise_not")
def _bitwise_not(op: Operator) -> Tensor:
    x = op.tensor(0)
    return op.graph.pointwise("logical_not" if x.dtype == "bool" else "bitwise_not", x, dtype=x.dtype)


@expands("isnan", "isinf")
def _classify(op: Operator) -> Tensor:
    x = op.tensor(0)
    if not is_float(x.dtype):
        return literal(op.graph, False, "bool", x.shape)
    return op.graph.pointwise(op.name.split(".")[0], x, dtype="bool")


@expands("where")
def _where(op: Operator) -> Tensor:
    e = arithmetic(op)
    condition = op.tensor(0, "condition")
    a, b = op.arg(1, "self"), op.arg(2, "other")
    return e.done(e.where(condition, a, b))


@expands("masked_fill")
def _masked_fill(op: Operator) -> Tensor:
    e = arithmetic(op)
    return e.done(e.where(op.tensor(1, "mask"), op.arg(2, "value"), op.tensor(0)))


@expands("clamp", "clamp_min", "clamp_max", "hardtanh", "relu6")
def _clamp(op: Operator) -> Tensor:
    name = op.name.split(".")[0]
    low, high = op.arg(1, "min"), op.arg(2, "max")
    if name == "clamp_max":
        low, high = None, op.arg(1, "max")
    elif name == "hardtanh":
        low, high = op.arg(1, "min_val", -1.0), op.arg(2, "max_val", 1.0)
    elif name == "relu6":
        low, high = 0.0, 6.0
    e = arithmetic(op)
    x: Operand = op.tensor(0)
    if low is not None and high is not None:
        return e.done(e("clamp", x, low, high))
    if low is not None:
        return e.done(e("maximum", x, low))
    return e.done(e("minimum", x, high)) if high is not None else op.tensor(0)


@expands("pow")
def _pow(op: Operator) -> Tensor:
    base, exponent = op.arg(0, "self"), op.arg(1, "exponent")
    e = arithmetic(op)
    special = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    if not isinstance(exponent, Tensor):
        if exponent == 1:
            return e.cast(base)
        if exponent in special and (is_float(op.dtype) or exponent == 2):
            return e.done(e(special[exponent], base))
        if exponent in (3, 4):
            square = e("square", base)
            return e.done(e("mul", square, base) if exponent == 3 else e("square", square))
        if not is_float(op.dtype):
            raise Uncovered("integer powers")
    return e.done(e("pow", base, exponent))


@expands("_to_copy", "to", "prims.convert_element_type", "convert_element_type")
def _to_copy(op: Operator) -> Tensor:
    x = op.tensor(0)
    if x.dtype == op.dtype:
        return x
    if op.dtype == "bool":
        found = truth(op.graph, x)
        assert isinstance(found, Tensor)
        return found
    return op.graph.pointwise("cast", x, dtype=op.dtype)


@expands("copy")
def _copy(op: Operator) -> Tensor:
    """What `copy_` leaves: the source in the shape and type of what it is copied to."""
    x = cast(op.graph, op.graph.expand(op.tensor(1, "src"), op.shape), op.dtype)
    assert isinstance(x, Tensor)
    return x


@expands("clone", "alias", "detach", "lift_fresh_copy", "contiguous", "lift_fresh", "positive", "dropout")
def _identity(op: Operator) -> Tensor:
    if op.name.startswith("dropout") and op.arg(2, "train") and op.arg(1, "p") != 0:
        raise Uncovered("dropout in training mode")
    return op.tensor(0)


@expands(
    "full",
    "full_like",
    "zeros",
    "ones",
    "zeros_like",
    "ones_like",
    "scalar_tensor",
    "new_full",
    "new_zeros",
    "new_ones",
)
def _full(op: Operator) -> Tensor:
    name = op.name.split(".")[0]
    if "full" in name:
        value = op.arg(2 if name == "new_full" else 1, "fill_value")
    elif name == "scalar_tensor":
        value = op.arg(0, "s")
    else:
        value = 1 if "ones" in name else 0
    fitted = cast(op.graph, value, op.dtype)
    if isinstance(fitted, Tensor):
        return op.graph.expand(fitted, op.shape)
    return literal(op.graph, fitted, op.dtype, op.shape)


@expands("arange")
def _arange(op: Operator) -> Tensor:
    start, step = 0, 1
    if op.name.endswith("start_step"):
        start, step = op.arg(0, "start"), op.arg(2, "step", 1)
    elif op.name.endswith("start"):
        start = op.arg(0, "start")
    if len(op.shape) != 1:
        raise Uncovered("arange of unknown size")
    index: Tensor = op.graph.iota(op.shape, 0)
    e = arithmetic(op)
    found = e.cast(index)
    if step != 1:
        found = e("mul", found, step)
    return e.done(e("add", found, start)) if start != 0 else e.done(found)


@expands("log10")
def _log10(op: Operator) -> Tensor:
    e = arithmetic(op)
    return e.done(e("mul", e("log", op.tensor(0)), 1 / math.log(10)))


@expands("addcmul", "addcdiv")
def _addc(op: Operator) -> Tensor:
    e = arithmetic(op)
    value = op.kwargs.get("value", 1)
    inner = e("mul" if op.name.startswith("addcmul") else "div", op.tensor(1), op.tensor(2))
    return e.done(e("add", op.tensor(0), inner if value == 1 else e("mul", inner, value)))


@expands("lerp")
def _lerp(op: Operator) -> Tensor:
    e, a = arithmetic(op), op.tensor(0)
    return e.done(e("add", a, e("mul", e("sub", op.tensor(1, "end"), a), op.arg(2, "weight"))))


@expands("tan", "sinh", "cosh")
def _hyperbolic(op: Operator) -> Tensor:
    e, x = arithmetic(op), op.tensor(0)
    if op.name.startswith("tan"):
        return e.done(e("div", e("sin", x), e("cos", x)))
    if op.name.startswith("cosh"):
        return e.done(e("mul", e("add", e("exp", x), e("exp", e("neg", x))), 0.5))
    # expm1 keeps the small arguments exact: sinh = (t + t / (t + 1)) / 2 with t = expm1(|x|). Of a negative x, t + 1
    # would cancel.
    t = e("expm1", e("abs", x))
    # Where t is infinite, so is the result: the quotient is not a number there.
    quotient = e.where(e.test("isinf", t), 1.0, e("div", t, e("add", t, 1.0)))
    size = e("mul", e("add", t, quotient), 0.5)
    return e.done(e.where(e.test("lt", x, 0.0), e("neg", size), size))
