"""Activation functions as primitives."""

import math
from typing import Any

from .pointwise import Arithmetic, arithmetic
from .registry import Operator, expands
from .tensors import Tensor


@expands("silu")
def _silu(op: Operator) -> Tensor:
    e, x = arithmetic(op), op.tensor(0)
    return e.done(e("mul", x, e("sigmoid", x)))


@expands("gelu")
def _gelu(op: Operator) -> Tensor:
    e, x = arithmetic(op), op.tensor(0)
    if op.kwargs.get("approximate", op.arg(1, "approximate", "none")) == "tanh":
        cube = e("mul", e("square", x), x)
        inner = e("mul", e("add", x, e("mul", cube, 0.044715)), math.sqrt(2 / math.pi))
        gate = e("add", e("tanh", inner), 1.0)
    else:
        gate = e("add", e("erf", e("mul", x, math.sqrt(0.5))), 1.0)
    return e.done(e("mul", e("mul", x, 0.5), gate))


@expands("leaky_relu")
def _leaky_relu(op: Operator) -> Tensor:
    e, x = arithmetic(op), op.tensor(0)
    slope = op.arg(1, "negative_slope", 0.01)
    return e.done(e.where(e.test("gt", x, 0), x, e("mul", x, slope)))


@expands("elu", "selu", "celu")
def _elu(op: Operator) -> Tensor:
    e, x = arithmetic(op), op.tensor(0)
    name = op.name.split(".")[0]
    alpha, scale, input_scale = op.arg(1, "alpha", 1.0), op.arg(2, "scale", 1.0), op.arg(3, "input_scale", 1.0)
    if name == "selu":
        alpha, scale, input_scale = 1.6732632423543772, 1.0507009873554805, 1.0
    elif name == "celu":
        scale, input_scale = 1.0, 1.0 / alpha
    inner = x if input_scale == 1 else e("mul", x, input_scale)
    negative = e("mul", e("expm1", inner), alpha * scale)
    positive = x if scale == 1 else e("mul", x, scale)
    return e.done(e.where(e.test("gt", x, 0), positive, negative))


@expands("hardsigmoid", "hardswish")
def _hardsigmoid(op: Operator) -> Tensor:
    e, x = arithmetic(op), op.tensor(0)
    gate = e("clamp", e("add", x, 3.0), 0.0, 6.0)
    if op.name.startswith("hardsigmoid"):
        return e.done(e("mul", gate, 1 / 6))
    return e.done(e("mul", e("mul", x, gate), 1 / 6))


def softplus(e: Arithmetic, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """`log(1 + exp(beta x)) / beta`, x itself past the threshold."""
    scaled: Any = x if beta == 1 else e("mul", x, beta)
    soft = e("log1p", e("exp", scaled))
    return e.where(e.test("gt", scaled, threshold), x, soft if beta == 1 else e("mul", soft, 1 / beta))


@expands("softplus")
def _softplus(op: Operator) -> Tensor:
    e = arithmetic(op)
    return e.done(softplus(e, op.tensor(0), op.arg(1, "beta", 1.0), op.arg(2, "threshold", 20.0)))


@expands("mish")
def _mish(op: Operator) -> Tensor:
    e, x = arithmetic(op), op.tensor(0)
    return e.done(e("mul", x, e("tanh", softplus(e, x))))


@expands("log_sigmoid")
def _log_sigmoid(op: Operator) -> Tensor:
    e, x = arithmetic(op), op.tensor(0)
    return e.done(e("sub", e("minimum", x, 0.0), e("log1p", e("exp", e("neg", e("abs", x))))))


@expands("softsign")
def _softsign(op: Operator) -> Tensor:
    e, x = arithmetic(op), op.tensor(0)
    return e.done(e("div", x, e("add", e("abs", x), 1.0)))
