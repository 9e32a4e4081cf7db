"""Loop programs that are hard on a template: every operator, NaN, ties, nothing, one, long rows, many axes.

`cases()` maps a name to a plan with one loop step and its input tensors (torch).
"""

from typing import Any

import torch
from programs import examples
from programs.moving import moving

from warpsmith.state.lowered import Symbol, Value
from warpsmith.state.program import ForwardPlan, Load, LoopProgram, Statement, Store
from warpsmith.state.sizes import Size

Case = tuple[ForwardPlan, list[Any]]
NAN, INF = float("nan"), float("inf")
_ROUNDING = ("floor", "ceil", "round", "trunc")
_EXPONENTIAL = ("exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "sin", "cos")
_TESTS = ("logical_not", "isnan", "isinf")
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
_DIVIDED = ("fmod", "remainder", "floor_div")
_RING = ("add", "sub", "mul", "maximum", "minimum")
FLOAT_UNARY = ["neg", "abs", "relu", "sign", "square", "reciprocal", *_ROUNDING, *_EXPONENTIAL, *_TESTS]
FLOAT_BINARY = [*_RING, "div", "pow", *_DIVIDED, *_COMPARED, *_LOGICAL]
INTEGER_UNARY = ["neg", "abs", "sign", "relu", "square", "bitwise_not", "logical_not"]
INTEGER_BINARY = [*_RING, *_DIVIDED, *_COMPARED, *_BITWISE, *_LOGICAL]
_GATHERING = (
    "padded",
    "joined_sum",
    "largest_wide",
    "gathered_at_best",
    "between_and_beside",
    "between_sizes",
    "ones_below",
)
_SCANNING = (
    *("added_up_columns", "added_up_long", "added_up_behind_long", "multiplied_up_long", "largest_so_far_long"),
    *("added_up_one_row", "added_up_behind_one_row", "counted_up_long", "added_up_columns_long", "added_up_twice"),
)
TRUTHS = {*_COMPARED, *_LOGICAL, *_TESTS}


def say(name: str, op: str, *args: Any, level: int = 0, dtype: str = "float32") -> Statement:
    return Statement(name=name, op=op, args=args, dtype=dtype, level=level)


def load(name: str, strides: tuple[Size, ...], dtype: str = "float32") -> Load:
    return Load(name=f"in_{name}", value=name, dtype=dtype, strides=strides)


def one_step(program: LoopProgram, inputs: dict[str, Value], outputs: dict[str, Value], **fields: Any) -> ForwardPlan:
    names = [{"ref": name} for name in outputs]
    values = {**inputs, **outputs}
    return ForwardPlan(inputs=tuple(inputs), values=values, steps=(program,), returns=names, **fields)


def vocabulary(dtype: str, unary: list[str], binary: list[str]) -> Case:
    """Every operator on two vectors: one store an operator."""
    numbers = [0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.7, -3.2, 7.0, 1e-6, -0.3, 90.0, -90.0, NAN, INF, -INF, 0.05]
    if dtype == "int64":
        numbers = [0, 1, -1, 2, -3, 7, -8, 5]
    x = torch.tensor([a for a in numbers for _ in numbers], dtype=getattr(torch, dtype))
    divisors = [n for n in numbers if n != 0] if dtype == "int64" else numbers
    y = torch.tensor([divisors[i % len(divisors)] for i in range(len(x))], dtype=getattr(torch, dtype))
    n = len(x)
    body, stores, outputs = [], [], {}
    for op in (*unary, *binary):
        args = ("in_x",) if op in unary else ("in_x", "in_y")
        kind = "bool" if op in TRUTHS else dtype
        body.append(say(f"t_{op}", op, *args, dtype=kind))
        stores.append(Store(name=f"t_{op}", value=f"y_{op}", dtype=kind, strides=(1,)))
        outputs[f"y_{op}"] = Value(shape=(n,), dtype=kind)
    program = LoopProgram(
        name=f"vocabulary_{dtype}",
        space=(n,),
        reduced=(False,),
        loads=(load("x", (1,), dtype), load("y", (1,), dtype)),
        body=tuple(body),
        stores=tuple(stores),
    )
    given = {"x": Value(shape=(n,), dtype=dtype), "y": Value(shape=(n,), dtype=dtype)}
    return one_step(program, given, outputs), [x, y]


def literals_and_casts() -> Case:
    """Literals on both sides, clamps with and without bounds, powers, where, iota, conversions."""
    n = 37
    body = (
        say("a", "sub", 1.0, "in_x"),
        say("b", "clamp", "a", -0.5, INF),
        say("c", "clamp", "b", -INF, 0.75),
        say("d", "pow", "c", 3),
        say("e", "pow", "in_x", 2.0),
        say("half", "pow", "e", 0.5),
        say("r", "pow", "e", -0.5),
        say("i", "iota", 0, dtype="int64"),
        say("even", "bitwise_and", "i", 1, dtype="int64"),
        say("odd", "eq", "even", 1, dtype="bool"),
        say("w", "where", "odd", "d", 2.0),
        say("f", "cast", "i", dtype="float32"),
        say("rounded", "cast", "in_x", dtype="bfloat16"),
        say("whole", "cast", "in_x", dtype="int64"),
        say("truth", "cast", "in_x", dtype="bool"),
        say("g", "add", "w", "f"),
        say("h", "div", "g", 4),
        say("k", "div", "h", 3),
    )
    stored = {
        "k": "float32",
        "half": "float32",
        "r": "float32",
        "rounded": "bfloat16",
        "whole": "int64",
        "truth": "bool",
    }
    program = LoopProgram(
        name="literals",
        space=(n,),
        reduced=(False,),
        loads=(load("x", (1,)),),
        body=body,
        stores=tuple(Store(name=name, value=f"y_{name}", dtype=dtype, strides=(1,)) for name, dtype in stored.items()),
    )
    outputs = {f"y_{name}": Value(shape=(n,), dtype=dtype) for name, dtype in stored.items()}
    x = torch.linspace(-3.1, 4.2, n).to(torch.bfloat16).float()
    return one_step(program, {"x": Value(shape=(n,), dtype="float32")}, outputs), [x]


def reductions(outer: int, extent: int, x: torch.Tensor, strided: bool = False) -> Case:
    """All reductions of a float matrix along one axis; `x` is (outer, extent), or (extent, outer) where strided."""
    space = (extent, outer) if strided else (outer, extent)
    keep = (0, 1) if strided else (1, 0)
    body = (
        say("total", "reduce_sum", "in_x"),
        say("top", "reduce_max", "in_x"),
        say("low", "reduce_min", "in_x"),
        say("at", "reduce_argmax", "in_x", dtype="int64"),
        say("where_low", "reduce_argmin", "in_x", dtype="int64"),
        say("positive", "gt", "in_x", 0.0, dtype="bool"),
        say("some", "reduce_any", "positive", dtype="bool"),
        say("every", "reduce_all", "positive", dtype="bool"),
        say("ones", "cast", "positive", dtype="int64"),
        say("count", "reduce_sum", "ones", dtype="int64"),
        say("scaled", "mul", "in_x", 0.001),
        say("shifted", "add", "scaled", 1.0),
        say("product", "reduce_prod", "shifted"),
    )
    kinds = {"at": "int64", "where_low": "int64", "some": "bool", "every": "bool", "count": "int64"}
    stored = ("total", "top", "low", "at", "where_low", "some", "every", "count", "product")
    program = LoopProgram(
        name="reductions",
        space=space,
        reduced=(strided, not strided),
        loads=(load("x", (space[1], 1)),),
        body=body,
        stores=tuple(
            Store(name=name, value=f"y_{name}", dtype=kinds.get(name, "float32"), strides=keep) for name in stored
        ),
    )
    outputs = {f"y_{name}": Value(shape=(outer,), dtype=kinds.get(name, "float32")) for name in stored}
    return one_step(program, {"x": Value(shape=space, dtype="float32")}, outputs), [x]


def logsumexp(rows: int, columns: int, x: torch.Tensor) -> Case:
    """`log(sum(exp(x - max))) + max` with the maximum handed out too, and a gain along columns reduced on its own."""
    program = LoopProgram(
        name="logsumexp",
        space=(rows, columns),
        reduced=(False, True),
        loads=(load("x", (columns, 1)), load("gain", (0, 1))),
        body=(
            say("peak", "reduce_max", "in_x"),
            say("gains", "reduce_sum", "in_gain"),
            say("d", "sub", "in_x", "peak", level=1),
            say("e", "exp", "d", level=1),
            say("s", "reduce_sum", "e", level=1),
            say("l", "log", "s", level=2),
            say("y", "add", "l", "peak", level=2),
            say("z", "mul", "y", "gains", level=2),
        ),
        stores=(
            Store(name="z", value="out", dtype="float32", strides=(1, 0)),
            Store(name="peak", value="most", dtype="float32", strides=(1, 0)),
        ),
    )
    given = {"x": Value(shape=(rows, columns), dtype="float32"), "gain": Value(shape=(columns,), dtype="float32")}
    outputs = {"out": Value(shape=(rows,), dtype="float32"), "most": Value(shape=(rows,), dtype="float32")}
    return one_step(program, given, outputs), [x, torch.linspace(0.5, 1.5, columns)]


def broadcast_axes() -> Case:
    """Five axes, two reduced and not adjacent, a transposed operand, an int8 mask, a store that is permuted."""
    space: tuple[Size, ...] = (2, 3, 5, 4, 3)
    program = LoopProgram(
        name="many_axes",
        space=space,
        reduced=(False, True, False, True, False),
        loads=(
            Load(name="in_x", value="x", dtype="float32", strides=(1, 2, 6, 30, 120), offset=0),
            Load(name="in_mask", value="mask", dtype="int8", strides=(0, 4, 0, 1, 0)),
        ),
        body=(
            say("m", "cast", "in_mask", dtype="float32"),
            say("p", "mul", "in_x", "m"),
            say("s", "reduce_sum", "p"),
            say("y", "sub", "in_x", "s", level=1),
        ),
        stores=(
            Store(name="y", value="full", dtype="float32", strides=(180, 1, 36, 3, 12)),
            Store(name="s", value="sums", dtype="float32", strides=(15, 0, 3, 0, 1)),
        ),
    )
    given = {"x": Value(shape=(3, 4, 5, 3, 2), dtype="float32"), "mask": Value(shape=(3, 4), dtype="int8")}
    outputs = {"full": Value(shape=(2, 5, 3, 4, 3), dtype="float32"), "sums": Value(shape=(2, 5, 3), dtype="float32")}
    mask = (torch.arange(12).reshape(3, 4) % 3 != 0).to(torch.int8)
    return one_step(program, given, outputs), [torch.randn(3, 4, 5, 3, 2), mask]


def channels_last() -> Case:
    """(2, 5, 33) to (2, 33, 5) with a gain for each batch element: a transposed operand inside an outer axis."""
    program = LoopProgram(
        name="channels_last",
        space=(2, 33, 5),
        reduced=(False, False, False),
        loads=(load("x", (165, 1, 33)), load("gain", (1, 0, 0))),
        body=(say("i", "iota", 0, dtype="float32"), say("g", "add", "in_gain", "i"), say("y", "mul", "in_x", "g")),
        stores=(Store(name="y", value="out", dtype="float32", strides=(165, 5, 1)),),
    )
    given = {"x": Value(shape=(2, 5, 33), dtype="float32"), "gain": Value(shape=(2,), dtype="float32")}
    return one_step(program, given, {"out": Value(shape=(2, 33, 5), dtype="float32")}), _normal(
        torch.float32, (2, 5, 33), (2,)
    )


def sum_of_nothing() -> Case:
    """Sums over an empty free dimension are 0."""
    program = LoopProgram(
        name="nothing",
        space=(3, "s0"),
        reduced=(False, True),
        loads=(load("x", ("s0", 1)),),
        body=(say("s", "reduce_sum", "in_x"), say("t", "add", "s", 1.0, level=1)),
        stores=(Store(name="s", value="y", dtype="float32", strides=(1, 0)),),
    )
    given, outputs = {"x": Value(shape=(3, "s0"), dtype="float32")}, {"y": Value(shape=(3,), dtype="float32")}
    symbol = Symbol(name="s0", input=0, dim=1, hint=600)
    return one_step(program, given, outputs, symbols=(symbol,)), [torch.randn(3, 0)]


def running_totals(x: torch.Tensor, backwards: bool = False) -> Case:
    """All running totals in one program, of a free size, planned for few long rows; and something of each row."""
    body = (
        say("total", "scan_sum", "in_x", backwards),
        say("top", "scan_max", "in_x", backwards),
        say("low", "scan_min", "in_x", backwards),
        say("positive", "gt", "in_x", 0.0, dtype="bool"),
        say("ones", "cast", "positive", dtype="int64"),
        say("count", "scan_sum", "ones", backwards, dtype="int64"),
        say("scaled", "mul", "in_x", "in_scale"),
        say("shifted", "add", "scaled", 1.0),
        say("product", "scan_prod", "shifted", backwards),
        say("mixed", "mul", "product", "top"),
        say("twice", "mul", "in_scale", 2.0),
    )
    kept = {"total": "float32", "low": "float32", "count": "int64", "mixed": "float32", "twice": "float32"}
    program = LoopProgram(
        name="running_totals",
        space=("s0", "s1"),
        reduced=(False, True),
        loads=(load("x", ("s1", 1)), load("scale", (1, 0))),
        body=body,
        stores=tuple(
            Store(name=name, value=f"y_{name}", dtype=dtype, strides=(1, 0) if name == "twice" else ("s1", 1))
            for name, dtype in kept.items()
        ),
    )
    given = {"x": Value(shape=("s0", "s1"), dtype="float32"), "scale": Value(shape=("s0",), dtype="float32")}
    outputs = {
        f"y_{name}": Value(shape=("s0",) if name == "twice" else ("s0", "s1"), dtype=dtype)
        for name, dtype in kept.items()
    }
    symbols = (Symbol(name="s0", input=0, dim=0, hint=3), Symbol(name="s1", input=0, dim=1, hint=16384))
    plan = one_step(program, given, outputs, symbols=symbols)
    return plan, [x, torch.linspace(0.001, 0.002, x.shape[0])]


def free(plan: ForwardPlan, *tensors: torch.Tensor) -> Case:
    """A symbolic example at other sizes than its hints, empty ones included."""
    return plan, list(tensors)


def _awkward_rows(rows: int, columns: int) -> torch.Tensor:
    """All negative, ties, NaN early and late, infinities."""
    x = -torch.rand(rows, columns) - 1.0
    x[1, columns // 2] = x[1, columns // 3] = 2.0
    x[2, columns - 1] = x[2, columns // 4] = NAN
    x[3, 0] = INF
    x[4] = -INF
    return x


def _gaps(rows: int, columns: int) -> torch.Tensor:
    """Rows with a NaN, with nothing but -inf, and with long stretches of -inf."""
    x = torch.randn(rows, columns)
    x[1, columns // 2] = NAN
    x[2] = -INF
    x[3, : columns // 2] = -INF
    return x


def _normal(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape).to(dtype) for shape in shapes]


def overwriting(case: Case) -> Case:
    """The same program with its result stored into its first input."""
    plan, inputs = case
    (step,) = plan.steps
    assert isinstance(step, LoopProgram)
    stores = tuple(store.model_copy(update={"into": step.loads[0].value}) for store in step.stores)
    return plan.model_copy(update={"steps": (step.model_copy(update={"stores": stores}),)}), inputs


def cases() -> dict[str, Case]:
    """All cases by name. Draws from a fixed seed."""
    torch.manual_seed(7)
    symbolic = examples.EXAMPLES["softmax_symbolic"]
    made = {
        "vocabulary_float32": vocabulary("float32", FLOAT_UNARY, FLOAT_BINARY),
        "vocabulary_int64": vocabulary("int64", INTEGER_UNARY, INTEGER_BINARY),
        "literals_and_casts": literals_and_casts(),
        "reductions_awkward": reductions(6, 71, _awkward_rows(6, 71)),
        "reductions_strided": reductions(6, 71, _awkward_rows(6, 71).T.contiguous(), strided=True),
        "reductions_long": reductions(6, 1500, _awkward_rows(6, 1500)),
        "logsumexp_awkward": logsumexp(6, 600, _awkward_rows(6, 600)),
        "many_axes": broadcast_axes(),
        "channels_last": channels_last(),
        "softmax_long": free(examples.softmax(3, 3001), torch.randn(3, 3001) * 30 + 500),
        "softmax_very_long": free(examples.softmax(4, 17003), _gaps(4, 17003)),
        "layer_norm_very_long": free(
            examples.layer_norm(2, 33000, "bfloat16"), *_normal(torch.bfloat16, (2, 33000), (33000,), (33000,))
        ),
        "layer_norm_one_row": free(
            examples.layer_norm(1, 900), torch.randn(1, 900) + 5, torch.randn(900), torch.randn(900)
        ),
        "softmax_one_column": free(examples.softmax(4, 1), torch.randn(4, 1)),
        "softmax_free_larger": free(symbolic, torch.randn(3, 300)),
        "softmax_free_empty": free(symbolic, torch.randn(0, 131)),
        "relu_add_free_empty": free(examples.EXAMPLES["relu_add_symbolic"], torch.randn(0, 70), torch.randn(70)),
        "sum_of_nothing": sum_of_nothing(),
        "running_totals": running_totals(_gaps(4, 5000)),
        "running_totals_behind": running_totals(torch.randn(2, 5000), backwards=True),
        "running_totals_short": running_totals(torch.randn(1, 37)),
        "running_totals_empty": running_totals(torch.randn(0, 300)),
        "running_totals_overwriting": overwriting(moving("added_up_behind_one_row")),
        "softmax_overwriting": overwriting(free(examples.softmax(5, 3001), torch.randn(5, 3001))),
        "relu_add_overwriting": overwriting(
            free(examples.EXAMPLES["relu_add_symbolic"], torch.randn(33, 70), torch.randn(70))
        ),
        "sum_free_long": free(examples.EXAMPLES["sum_all_symbolic"], torch.randn(70001)),
    }
    made |= {name: moving(name) for name in (*_GATHERING, *_SCANNING)}
    for name, plan in examples.EXAMPLES.items():
        if plan.steps[0].kind == "loop":
            made[name] = plan, examples.inputs(name)
    return made
