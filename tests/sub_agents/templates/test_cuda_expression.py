"""The CUDA expression printer: the whole vocabulary, run on the CPU emulation against torch."""

from typing import Any

import pytest
import torch
from cuda_emulation.holding import check, default
from cuda_emulation.loop_plans import plan_of

from warpsmith.state.program import BINARY, UNARY, ForwardPlan, Statement
from warpsmith.sub_agents.templates.cuda_expression import Printer
from warpsmith.sub_agents.templates.cuda_names import identifier
from warpsmith.sub_agents.templates.cuda_pointwise import CudaPointwise
from warpsmith.sub_agents.templates.cuda_prelude import prelude
from warpsmith.sub_agents.templates.cuda_types import literal

SPECIAL = [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1e-30, 3.7, -7.0, 88.0, -88.0, float("inf"), float("-inf"), float("nan")]
PREDICATES = (
    "logical_not",
    "isnan",
    "isinf",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
)
INTEGERS_ONLY = ("bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor")
FLOATS = [op for op in UNARY if op not in INTEGERS_ONLY]
PAIRS = [op for op in BINARY if op not in INTEGERS_ONLY]
WHOLE = ("neg", "abs", "relu", "sign", "square", "floor", "ceil", "round", "trunc", "bitwise_not")
WHOLE_PAIRS = [op for op in BINARY if op not in ("div", "pow")]


def result_type(op: str, dtype: str) -> str:
    return "bool" if op in PREDICATES else dtype


def table(rows: list[tuple[Any, ...]], loads: tuple[str, ...], count: int, dtype: str) -> ForwardPlan:
    """A pointwise plan with one output for every statement."""
    return plan_of(
        (count,),
        (False,),
        rows,
        {f"out_{row[0]}": (row[0], row[2]) for row in rows},
        loads={name: (1,) for name in loads},
        dtypes=dict.fromkeys(loads, dtype),
    )


def run(plan: ForwardPlan, *tensors: torch.Tensor) -> None:
    template = CudaPointwise()
    check(template, plan, default(template, plan), list(tensors))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unary_operators_on_ordinary_and_special_values(dtype: str) -> None:
    x = torch.tensor([*SPECIAL, *torch.randn(50).tolist()], dtype=getattr(torch, dtype))
    run(table([(f"r_{op}", op, result_type(op, dtype), 0, "in_x") for op in FLOATS], ("x",), len(x), dtype), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binary_operators_on_every_pair_of_special_values(dtype: str) -> None:
    values = torch.tensor([v for v in SPECIAL if v not in (88.0, -88.0, 1e-30)], dtype=getattr(torch, dtype))
    x, y = (t.reshape(-1).contiguous() for t in torch.meshgrid(values, values, indexing="ij"))
    rows = [(f"r_{op}", op, result_type(op, dtype), 0, "in_x", "in_y") for op in PAIRS]
    run(table(rows, ("x", "y"), len(x), dtype), x, y)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_integer_operators_take_the_signs_that_torch_gives(dtype: str) -> None:
    signed = dtype != "uint8"
    values = torch.tensor([-128, -7, -6, -1, 0, 3, 7, 100] if signed else [0, 3, 7, 255], dtype=getattr(torch, dtype))
    divisors = torch.tensor([-7, -2, 3, 5] if signed else [3, 5, 200], dtype=getattr(torch, dtype))
    x, y = (t.reshape(-1).contiguous() for t in torch.meshgrid(values, divisors, indexing="ij"))
    rows = [(f"r_{op}", op, result_type(op, dtype), 0, "in_x") for op in WHOLE if signed or op not in ("neg", "sign")]
    rows += [(f"s_{op}", op, result_type(op, dtype), 0, "in_x", "in_y") for op in WHOLE_PAIRS]
    run(table(rows, ("x", "y"), len(x), dtype), x, y)


def test_powers_with_literal_exponents_where_clamp_and_casts() -> None:
    # Without -inf and -0.0: for exponents of +-0.5 torch takes roots where they are literals, powers where tensors.
    x = torch.tensor([*(v for v in SPECIAL if str(v) not in ("-inf", "-0.0")), *torch.randn(20).tolist()])
    rows: list[tuple[Any, ...]] = [
        (f"p{i}", "pow", "float32", 0, "in_x", exponent)
        for i, exponent in enumerate((0, 1, 2, 3, 4, 0.5, -1, -2, 2.5, -0.5))
    ]
    rows += [
        ("positive", "gt", "bool", 0, "in_x", 0),
        ("chosen", "where", "float32", 0, "positive", "in_x", -1.0),
        ("kept", "clamp", "float32", 0, "in_x", -1.5, 2.0),
        ("below", "clamp", "float32", 0, "in_x", float("-inf"), 1.0),
        ("half", "cast", "float16", 0, "in_x"),
        ("brain", "cast", "bfloat16", 0, "in_x"),
        ("both", "add", "float32", 0, "half", "brain"),
        ("true", "cast", "bool", 0, "in_x"),
        ("flag", "cast", "float32", 0, "positive"),
    ]
    run(table(rows, ("x",), len(x), "float32"), x)


def test_fast_maths_uses_the_fast_functions_and_only_for_float() -> None:
    fast = Printer({"x": "float32", "d": "float64"}, fast_math=True)
    assert fast.expression(Statement(name="e", op="exp", args=("x",), dtype="float32")) == "fast_exp(x)"
    assert fast.expression(Statement(name="e", op="div", args=("x", "x"), dtype="float32")) == "fast_divide(x, x)"
    assert fast.expression(Statement(name="e", op="exp", args=("d",), dtype="float64")) == "exp(d)"


def test_an_operator_without_a_printer_is_named() -> None:
    with pytest.raises(ValueError, match="no CUDA printer for sin of int64"):
        Printer({"x": "int64"}).expression(Statement(name="e", op="sin", args=("x",), dtype="int64"))


def test_a_symbolic_size_is_an_integer_argument() -> None:
    printed = Printer({"x": "float32"}).expression(Statement(name="e", op="div", args=("x", "64*s0"), dtype="float32"))
    assert printed == "x / float((64 * (long long)s0))"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.5, "float32", "1.5f"),
        (-2, "float32", "(-2.0f)"),
        (1e300, "float32", "infinity<float>()"),
        (float("-inf"), "float64", "-infinity<double>()"),
        (-(2**63), "int64", "(-9223372036854775807LL - 1)"),
        (7, "int8", "(signed char)(7)"),
        (1, "bool", "true"),
    ],
)
def test_literals_are_exact_in_their_type(value: float, dtype: str, text: str) -> None:
    assert literal(value, dtype) == text


def test_names_that_kernels_use_themselves_are_changed() -> None:
    assert [identifier(name) for name in ("exp", "lambda", "2x", "a.b", "x")] == ["exp_", "lambda_", "v2x", "a_b", "x"]


def test_the_prelude_holds_what_is_used_and_what_that_needs_but_nothing_else() -> None:
    text = prelude("y = floor_remainder<int>(a, b);")
    assert "T c_remainder" in text
    assert "Vector" not in text
    assert "maximum" not in text
