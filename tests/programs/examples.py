"""Hand-written kernel programs, each alone in a forward plan: what the templates and the interpreter are tested on.

`EXAMPLES[name]` is a `ForwardPlan` with one kernel step; `inputs(name, sizes)` draws fitting CPU tensors (torch).
"""

from typing import Any

from warpsmith.state.lowered import Symbol, Value
from warpsmith.state.program import ForwardPlan, Load, LoopProgram, MatmulProgram, Operand, Statement, Store
from warpsmith.state.sizes import Size, product
from warpsmith.state.sizes import value as number

Symbols = dict[str, tuple[int, int, int]] | None
"""Input number, dimension and hint of each symbol."""


def contiguous(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """Element strides of a contiguous tensor."""
    return tuple(product(shape[i + 1 :]) for i in range(len(shape)))


def _load(name: str, strides: tuple[Size, ...], dtype: str = "float32") -> Load:
    return Load(name=f"in_{name}", value=name, dtype=dtype, strides=strides)


def _say(name: str, op: str, *args: Any, level: int = 0, dtype: str = "float32") -> Statement:
    return Statement(name=name, op=op, args=args, dtype=dtype, level=level)


def _plan(
    step: LoopProgram | MatmulProgram,
    inputs: dict[str, Value],
    outputs: dict[str, Value],
    symbols: Symbols = None,
) -> ForwardPlan:
    names = [{"ref": name} for name in outputs]
    return ForwardPlan(
        inputs=tuple(inputs),
        symbols=tuple(Symbol(name=s, input=i, dim=d, hint=h) for s, (i, d, h) in (symbols or {}).items()),
        values={**inputs, **outputs},
        steps=(step,),
        returns=names[0] if len(names) == 1 else names,
    )


def _value(*shape: Size, dtype: str = "float32") -> Value:
    return Value(shape=shape, dtype=dtype)


def relu_add(rows: Size = 33, columns: Size = 70, symbols: Symbols = None) -> ForwardPlan:
    """`relu(x + bias)` with the bias broadcast over rows."""
    program = LoopProgram(
        name="relu_add",
        space=(rows, columns),
        reduced=(False, False),
        loads=(_load("x", (columns, 1)), _load("bias", (0, 1))),
        body=(_say("t0", "add", "in_x", "in_bias"), _say("t1", "relu", "t0")),
        stores=(Store(name="t1", value="y", dtype="float32", strides=(columns, 1)),),
    )
    inputs = {"x": _value(rows, columns), "bias": _value(columns)}
    return _plan(program, inputs, {"y": _value(rows, columns)}, symbols)


def transposed_bf16_two_outputs() -> ForwardPlan:
    """`a = x.T * gate + 1` in bfloat16 and its boolean `a > 0`: a transposed load, two stores."""
    program = LoopProgram(
        name="gate",
        space=(31, 65),
        reduced=(False, False),
        loads=(_load("x", (1, 31), "bfloat16"), _load("gate", (65, 1), "bfloat16")),
        body=(
            _say("t0", "mul", "in_x", "in_gate", dtype="bfloat16"),
            _say("t1", "add", "t0", 1, dtype="bfloat16"),
            _say("t2", "gt", "t1", 0, dtype="bool"),
        ),
        stores=(
            Store(name="t1", value="a", dtype="bfloat16", strides=(65, 1)),
            Store(name="t2", value="positive", dtype="bool", strides=(65, 1)),
        ),
    )
    inputs = {"x": _value(65, 31, dtype="bfloat16"), "gate": _value(31, 65, dtype="bfloat16")}
    outputs = {"a": _value(31, 65, dtype="bfloat16"), "positive": _value(31, 65, dtype="bool")}
    return _plan(program, inputs, outputs)


def _softmax_body() -> tuple[Statement, ...]:
    return (
        _say("peak", "reduce_max", "in_x"),
        _say("shifted", "sub", "in_x", "peak", level=1),
        _say("weight", "exp", "shifted", level=1),
        _say("total", "reduce_sum", "weight", level=1),
        _say("t0", "div", "weight", "total", level=2),
    )


def softmax(rows: Size = 19, columns: Size = 131, symbols: Symbols = None) -> ForwardPlan:
    """Softmax over the last, contiguous dimension."""
    program = LoopProgram(
        name="softmax",
        space=(rows, columns),
        reduced=(False, True),
        loads=(_load("x", (columns, 1)),),
        body=_softmax_body(),
        stores=(Store(name="t0", value="y", dtype="float32", strides=(columns, 1)),),
    )
    return _plan(program, {"x": _value(rows, columns)}, {"y": _value(rows, columns)}, symbols)


def softmax_middle() -> ForwardPlan:
    """Softmax over dimension 1 of 3: the reduced axis is strided, the last axis is contiguous."""
    strides = contiguous((5, 37, 20))
    program = LoopProgram(
        name="softmax_middle",
        space=(5, 37, 20),
        reduced=(False, True, False),
        loads=(_load("x", strides),),
        body=_softmax_body(),
        stores=(Store(name="t0", value="y", dtype="float32", strides=strides),),
    )
    return _plan(program, {"x": _value(5, 37, 20)}, {"y": _value(5, 37, 20)})


def layer_norm(rows: int = 23, columns: int = 77, dtype: str = "float32") -> ForwardPlan:
    """Layer norm with affine weights over the last dimension: mean, then mean of squared deviations."""
    program = LoopProgram(
        name="layer_norm",
        space=(rows, columns),
        reduced=(False, True),
        loads=(_load("x", (columns, 1), dtype), _load("weight", (0, 1), dtype), _load("bias", (0, 1), dtype)),
        body=(
            _say("s0", "reduce_sum", "in_x"),
            _say("mean", "div", "s0", columns, level=1),
            _say("d", "sub", "in_x", "mean", level=1),
            _say("sq", "square", "d", level=1),
            _say("s1", "reduce_sum", "sq", level=1),
            _say("var", "div", "s1", columns, level=2),
            _say("safe", "add", "var", 1e-5, level=2),
            _say("rstd", "rsqrt", "safe", level=2),
            _say("n", "mul", "d", "rstd", level=2),
            _say("scaled", "mul", "n", "in_weight", level=2, dtype=dtype),
            _say("t0", "add", "scaled", "in_bias", level=2, dtype=dtype),
        ),
        stores=(Store(name="t0", value="y", dtype=dtype, strides=(columns, 1)),),
    )
    inputs = {"x": _value(rows, columns, dtype=dtype)}
    inputs |= {"weight": _value(columns, dtype=dtype), "bias": _value(columns, dtype=dtype)}
    return _plan(program, inputs, {"y": _value(rows, columns, dtype=dtype)})


def sum_all(n: Size = 4099, symbols: Symbols = None) -> ForwardPlan:
    """Mean of squares of everything: no outer axis; the count may be a symbol."""
    program = LoopProgram(
        name="mean_square",
        space=(n,),
        reduced=(True,),
        loads=(_load("x", (1,)),),
        body=(
            _say("sq", "square", "in_x"),
            _say("s", "reduce_sum", "sq"),
            _say("t0", "div", "s", n, level=1),
        ),
        stores=(Store(name="t0", value="y", dtype="float32", strides=(0,)),),
    )
    return _plan(program, {"x": _value(n)}, {"y": _value()}, symbols)


def argmax_rows() -> ForwardPlan:
    """Argmax (int64) and maximum over dimension 0 of 2, the strided one."""
    program = LoopProgram(
        name="argmax_rows",
        space=(45, 18),
        reduced=(True, False),
        loads=(_load("x", (18, 1)),),
        body=(_say("t0", "reduce_argmax", "in_x", dtype="int64"), _say("t1", "reduce_max", "in_x")),
        stores=(
            Store(name="t0", value="index", dtype="int64", strides=(0, 1)),
            Store(name="t1", value="peak", dtype="float32", strides=(0, 1)),
        ),
    )
    return _plan(program, {"x": _value(45, 18)}, {"index": _value(18, dtype="int64"), "peak": _value(18)})


def group_norm() -> ForwardPlan:
    """Group norm of (3, 4 channels in 2 groups, 35): two reduced axes, affine weights along one of them."""
    space: tuple[Size, ...] = (3, 2, 2, 35)
    strides = contiguous(space)
    program = LoopProgram(
        name="group_norm",
        space=space,
        reduced=(False, False, True, True),
        loads=(_load("x", strides), _load("weight", (0, 2, 1, 0)), _load("bias", (0, 2, 1, 0))),
        body=(
            _say("s0", "reduce_sum", "in_x"),
            _say("mean", "div", "s0", 70, level=1),
            _say("d", "sub", "in_x", "mean", level=1),
            _say("sq", "square", "d", level=1),
            _say("s1", "reduce_sum", "sq", level=1),
            _say("var", "div", "s1", 70, level=2),
            _say("safe", "add", "var", 1e-5, level=2),
            _say("rstd", "rsqrt", "safe", level=2),
            _say("n", "mul", "d", "rstd", level=2),
            _say("scaled", "mul", "n", "in_weight", level=2),
            _say("t0", "add", "scaled", "in_bias", level=2),
        ),
        stores=(Store(name="t0", value="y", dtype="float32", strides=strides),),
    )
    inputs = {"x": _value(3, 4, 35), "weight": _value(4), "bias": _value(4)}
    return _plan(program, inputs, {"y": _value(3, 4, 35)})


def linear_relu(m: Size = 37, n: int = 50, k: int = 67, symbols: Symbols = None) -> ForwardPlan:
    """`relu(x @ weight.T + bias)` in float32: weight is (n, k), as in `nn.Linear`."""
    program = MatmulProgram(
        name="linear_relu",
        batch=(),
        m=m,
        n=n,
        k=k,
        a=Operand(value="x", dtype="float32", strides=(k, 1)),
        b=Operand(value="weight", dtype="float32", strides=(1, k)),
        loads=(_load("bias", (0, 1)),),
        body=(_say("t0", "add", "acc", "in_bias"), _say("t1", "relu", "t0")),
        stores=(Store(name="t1", value="y", dtype="float32", strides=(n, 1)),),
    )
    inputs = {"x": _value(m, k), "weight": _value(n, k), "bias": _value(n)}
    return _plan(program, inputs, {"y": _value(m, n)}, symbols)


def bmm_bf16() -> ForwardPlan:
    """Batched product in bfloat16, b broadcast along the outer batch axis, residual added, no other epilogue."""
    program = MatmulProgram(
        name="bmm",
        batch=(2, 3),
        m=33,
        n=40,
        k=21,
        a=Operand(value="a", dtype="bfloat16", strides=(3 * 33 * 21, 33 * 21, 21, 1)),
        b=Operand(value="b", dtype="bfloat16", strides=(0, 21 * 40, 40, 1)),
        loads=(_load("residual", (3 * 33 * 40, 33 * 40, 40, 1), "bfloat16"),),
        body=(_say("t0", "add", "acc", "in_residual", dtype="bfloat16"),),
        stores=(Store(name="t0", value="y", dtype="bfloat16", strides=(3 * 33 * 40, 33 * 40, 40, 1)),),
    )
    inputs = {"a": _value(2, 3, 33, 21, dtype="bfloat16"), "b": _value(3, 21, 40, dtype="bfloat16")}
    inputs["residual"] = _value(2, 3, 33, 40, dtype="bfloat16")
    return _plan(program, inputs, {"y": _value(2, 3, 33, 40, dtype="bfloat16")})


EXAMPLES: dict[str, ForwardPlan] = {
    "relu_add": relu_add(),
    "relu_add_symbolic": relu_add("s0", "s1", {"s0": (0, 0, 33), "s1": (0, 1, 70)}),
    "transposed_bf16_two_outputs": transposed_bf16_two_outputs(),
    "softmax": softmax(),
    "softmax_symbolic": softmax("s0", "s1", {"s0": (0, 0, 19), "s1": (0, 1, 131)}),
    "softmax_middle": softmax_middle(),
    "layer_norm": layer_norm(),
    "layer_norm_bf16": layer_norm(11, 130, "bfloat16"),
    "sum_all": sum_all(),
    "sum_all_symbolic": sum_all("s0", {"s0": (0, 0, 4099)}),
    "argmax_rows": argmax_rows(),
    "group_norm": group_norm(),
    "linear_relu": linear_relu(),
    "linear_relu_symbolic": linear_relu("s0", symbols={"s0": (0, 0, 37)}),
    "bmm_bf16": bmm_bf16(),
}


def inputs(name: str, rng_seed: int = 0) -> list[Any]:
    """Normal CPU tensors for the example's inputs, in order, symbols at their hints."""
    import torch

    plan = EXAMPLES[name]
    generator = torch.Generator().manual_seed(rng_seed)
    drawn = []
    for each in plan.inputs:
        record = plan.values[each]
        shape = [number(size, plan.hints) for size in record.shape]
        drawn.append(torch.randn(shape, generator=generator).to(getattr(torch, record.dtype)))
    return drawn
