"""Matrix-product programs of every layout with epilogues, their inputs, and float64 answers to hold kernels against."""

from dataclasses import dataclass
from typing import Any

from programs.examples import contiguous

from warpsmith.state.program import Load, MatmulProgram, Operand, Statement, Store
from warpsmith.state.sizes import Size
from warpsmith.state.sizes import value as number


@dataclass(frozen=True)
class Case:
    """A program with the shapes and dtypes of its values, and its symbols' values."""

    program: MatmulProgram
    values: dict[str, tuple[tuple[Size, ...], str]]
    hints: dict[str, int]


@dataclass(frozen=True)
class Layout:
    """What varies between cases. `a` and `b` name the memory order of the matrix axes: `mk` has k contiguous."""

    m: Size = 37
    n: Size = 50
    k: Size = 67
    dtype: str = "float32"
    a: str = "mk"
    b: str = "kn"
    batch: tuple[Size, ...] = ()
    b_batched: bool = True
    epilogue: str = "bias_relu"
    output: str | None = None
    still: str = ""
    """Axes along which operands stay in place, as the planner has it for axes of size 1 and for expanded ones."""


def case(layout: Layout, **hints: int) -> Case:
    """The program for a layout; `hints` give its symbols' values."""
    spaces = {"m": layout.m, "n": layout.n, "k": layout.k}
    values: dict[str, tuple[tuple[Size, ...], str]] = {}

    def operand(name: str, order: str, want: str, batch: tuple[Size, ...]) -> Operand:
        shape = (*batch, *(spaces[axis] for axis in order))
        values[name] = (shape, layout.dtype)
        strides = contiguous(shape)
        matrix = dict(zip(order, strides[-2:], strict=True)) | dict.fromkeys(layout.still, 0)
        outer = strides[: len(batch)] if batch else (0,) * len(layout.batch)
        return Operand(value=name, dtype=layout.dtype, strides=(*outer, *(matrix[axis] for axis in want)))

    a = operand("x", layout.a, "mk", layout.batch)
    b = operand("weight", layout.b, "kn", layout.batch if layout.b_batched else ())
    also = operand("gate", layout.b, "kn", layout.batch if layout.b_batched else ()) if gated(layout) else None
    out = layout.output or layout.dtype
    full = (*layout.batch, layout.m, layout.n)
    loads, body, stores = _epilogue(layout, full, out)
    for load in loads:
        shapes = {"bias": (layout.n,), "scale": (layout.m,), "residual": full, "bias_of_head": full[1:], "alpha": ()}
        shape = shapes[load.value]
        values[load.value] = (shape, load.dtype)
    for store in stores:
        values[store.value] = (full, store.dtype)
    program = MatmulProgram(
        name="product", batch=layout.batch, m=layout.m, n=layout.n, k=layout.k, a=a, b=b, also=also, loads=loads,
        body=body, stores=stores,
    )  # fmt: skip
    return Case(program, values, hints)


def _axes(full: tuple[Size, ...]) -> list[tuple[str, Size, Size]]:
    """Name (batch axes have none), size and stride of each axis of the output."""
    names = ["" for _ in full[:-2]] + ["m", "n"]
    return list(zip(names, full, contiguous(full), strict=True))


def gated(layout: Layout) -> bool:
    """Whether a second product of the same left factor meets the first."""
    return layout.epilogue == "gated"


def _epilogue(
    layout: Layout, full: tuple[Size, ...], out: str
) -> tuple[tuple[Load, ...], tuple[Statement, ...], tuple[Store, ...]]:
    none = (0,) * len(layout.batch)

    def load(value: str, strides: tuple[Size, ...]) -> Load:
        return Load(name=f"in_{value}", value=value, dtype=layout.dtype, strides=strides)

    def say(name: str, op: str, *args: Any, dtype: str = out) -> Statement:
        return Statement(name=name, op=op, args=args, dtype=dtype)

    def store(name: str, value: str, dtype: str = out) -> Store:
        strides = [0 if axis in layout.still and size == 1 else stride for axis, size, stride in _axes(full)]
        return Store(name=name, value=value, dtype=dtype, strides=tuple(strides))

    if layout.epilogue == "plain":
        return (), (), (store("acc", "y"),)
    if gated(layout):
        body = (say("t0", "tanh", "acc_1"), say("t1", "mul", "acc", "t0"), say("t2", "add", "t1", "in_bias"))
        return (load("bias", (*none, 0, 1)),), body, (store("t2", "y"),)
    if layout.epilogue == "bias_relu":
        body = (say("t0", "add", "acc", "in_bias"), say("t1", "relu", "t0"))
        return (load("bias", (*none, 0, 1)),), body, (store("t1", "y"),)
    if layout.epilogue == "bias_of_head":
        # One matrix for each item of the inner batch axis: the batch axes do not merge.
        body = (say("t0", "add", "acc", "in_bias_of_head"),)
        return (load("bias_of_head", (0, *contiguous(full[1:]))),), body, (store("t0", "y"),)
    # Every kind of broadcast, a symbolic or literal count, and two outputs of different dtypes.
    loads = (
        load("scale", (*none, 1, 0)),
        load("residual", contiguous(full)),
        load("alpha", (*none, 0, 0)),
    )
    body = (
        say("t0", "mul", "acc", "in_scale"),
        say("t1", "add", "t0", "in_residual"),
        say("t2", "mul", "t1", "in_alpha"),
        say("t3", "div", "t2", layout.n),
        say("t4", "tanh", "t3"),
        say("t5", "gt", "t3", 0, dtype="bool"),
    )
    return loads, body, (store("t4", "y"), store("t5", "positive", "bool"))


def tensors(given: Case, rng_seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Normal values for what the program reads."""
    import torch

    generator = torch.Generator().manual_seed(rng_seed)
    made = [store.value for store in given.program.stores]
    drawn = {}
    for name, (shape, dtype) in given.values.items():
        if name not in made:
            sizes = [number(size, given.hints) for size in shape]
            drawn[name] = torch.randn(sizes, generator=generator).to(device=device, dtype=getattr(torch, dtype))
    return drawn


_OPERATORS = {"add": "add", "mul": "mul", "div": "div", "relu": "relu", "tanh": "tanh", "gt": "gt"}


def answer(given: Case, inputs: dict[str, Any]) -> list[Any]:
    """The stores' values in float64 (bool stays bool), by PyTorch."""
    import torch

    program, hints = given.program, given.hints
    batch = [number(size, hints) for size in program.batch]
    m, n, k = (number(size, hints) for size in (program.m, program.n, program.k))

    def view(tensor: Operand | Load, sizes: list[int]) -> Any:
        strides = [number(size, hints) for size in tensor.strides]
        wide = inputs[tensor.value].double()
        return torch.as_strided(wide, sizes, strides, number(tensor.offset, hints))

    known: dict[str, Any] = {"acc": view(program.a, [*batch, m, k]) @ view(program.b, [*batch, k, n])}
    if program.also is not None:
        known["acc_1"] = view(program.a, [*batch, m, k]) @ view(program.also, [*batch, k, n])
    known |= {load.name: view(load, [*batch, m, n]) for load in program.loads}
    for statement in program.body:
        args = [_argument(arg, known, hints) for arg in statement.args]
        known[statement.name] = getattr(torch, _OPERATORS[statement.op])(*args)
    return [known[store.name] for store in program.stores]


def _argument(arg: str | bool | int | float, known: dict[str, Any], hints: dict[str, int]) -> Any:
    if isinstance(arg, str):
        return known[arg] if arg in known else number(arg, hints)
    return arg


def relative_error(mine: Any, expected: Any) -> float:
    """Norm of the difference over the norm of the expected values; the share of wrong elements for booleans."""
    if mine.shape != expected.shape:
        return float("inf")
    if str(mine.dtype) == "torch.bool":
        return float((mine != expected.to(mine.device)).double().mean())
    difference = mine.double() - expected.to(mine.device)
    return float(difference.norm() / expected.norm().clamp_min(1e-30).to(mine.device))


SHAPES: dict[str, Layout] = {
    "fp32_nn": Layout(),
    "fp32_nt_odd": Layout(m=65, n=33, k=129, b="nk", epilogue="full"),
    "fp32_tn": Layout(a="km", b="kn", m=70, k=40),
    "fp32_tt": Layout(a="km", b="nk", epilogue="plain"),
    "fp16_even": Layout(m=128, n=64, k=128, dtype="float16"),
    "bf16_nt_even": Layout(m=64, n=128, k=256, dtype="bfloat16", b="nk", epilogue="full"),
    "bf16_tn": Layout(m=48, n=80, k=96, dtype="bfloat16", a="km"),
    "bf16_fp32_output": Layout(m=64, n=64, k=64, dtype="bfloat16", output="float32"),
    "batched": Layout(batch=(2, 3), m=33, n=40, k=24, epilogue="full"),
    "batched_shared_b": Layout(batch=(2, 3), m=17, n=32, k=64, b="nk", b_batched=False),
    "batched_transposed": Layout(batch=(3,), m=48, n=32, k=64, a="km", b="nk", dtype="bfloat16"),
    "two_batch_axes": Layout(batch=(2, 3), m=20, n=24, k=64, b="nk", epilogue="bias_of_head"),
    "two_batch_axes_bf16": Layout(
        batch=("s0", 3), m=20, n=30, k=64, a="km", dtype="bfloat16", b_batched=False, epilogue="bias_of_head"
    ),
    "two_batch_axes_deep": Layout(batch=(2, 2), m=1, n=24, k=1024, b="nk", epilogue="bias_of_head"),
    "long_k": Layout(m=16, n=24, k=1000),
    "one_row": Layout(m=1, n=70, k=130, b="nk"),
    "one_column": Layout(m=70, n=1, k=130),
    "two_rows_bf16": Layout(m=2, n=300, k=260, dtype="bfloat16", epilogue="full"),
    "three_columns_tn": Layout(m=90, n=3, k=517, a="km", b="nk", epilogue="full"),
    "still_row": Layout(m=1, n=40, k=70, still="m"),
    "still_column": Layout(m=40, n=1, k=70, still="n"),
    "still_depth": Layout(m=40, n=50, k=1, still="k"),
    "one_element": Layout(m=1, n=1, k=70, still="mn"),
    "expanded_rows": Layout(m=40, n=50, k=70, still="m", epilogue="plain"),
    "batched_row": Layout(batch=(5,), m=1, n=40, k=96),
    "symbolic_vector": Layout(m="s0", n=1, k="32*s1", b="nk", epilogue="full"),
    "symbolic_few_rows": Layout(m="s1", n="s0", k="32*s1", b="nk", dtype="bfloat16"),
    "symbolic_few_columns": Layout(m="s0", n="s1", k=130, dtype="bfloat16", epilogue="full"),
    "symbolic": Layout(m="s0", n=48, k="32*s1", b="nk", epilogue="full"),
    "symbolic_rows_bf16": Layout(m=40, n="8*s0", k="s1", b="nk", dtype="bfloat16"),
    "many_small": Layout(batch=(128,), m="16*s1", n="s0", k=20, epilogue="full"),
    "many_small_bf16": Layout(batch=(43, 3), m=7, n=9, k=12, dtype="bfloat16", b="nk", epilogue="bias_of_head"),
    "gated_bf16": Layout(m=70, n=50, k=96, dtype="bfloat16", b="nk", epilogue="gated"),
    "gated_symbolic": Layout(m="s1", n="s0", k="32*s1", dtype="float16", epilogue="gated"),
    "gated_batched": Layout(batch=(2, 3), m=40, n=48, k=64, dtype="bfloat16", b_batched=False, epilogue="gated"),
    "no_depth": Layout(m=8, n=9, k=0, epilogue="bias_relu"),
}


def cases() -> dict[str, Case]:
    """Every case by name; small enough for an interpreter."""
    symbols = {"s0": 37, "s1": 3}
    own = {
        "symbolic_rows_bf16": {"s0": 5, "s1": 64},
        "two_batch_axes_bf16": {"s0": 2},
        "many_small": {"s0": 21, "s1": 1},
    }
    return {
        name: case(layout, **own.get(name, symbols if _symbolic(layout) else {})) for name, layout in SHAPES.items()
    }


def _symbolic(layout: Layout) -> bool:
    return any(isinstance(size, str) for size in (*layout.batch, layout.m, layout.n, layout.k))


LARGE: dict[str, Layout] = {
    "fp32_nn": Layout(m=4096, n=4096, k=4096, epilogue="plain"),
    "fp32_linear": Layout(m=1024, n=8192, k=8192, b="nk"),
    "fp32_tn": Layout(m=2048, n=2048, k=4096, a="km"),
    "fp32_odd": Layout(m=1021, n=2039, k=1537, b="nk", epilogue="full"),
    "bf16_nn": Layout(m=4096, n=4096, k=4096, dtype="bfloat16", epilogue="plain"),
    "bf16_linear": Layout(m=8192, n=4096, k=4096, dtype="bfloat16", b="nk", epilogue="full"),
    "bf16_tn": Layout(m=4096, n=4096, k=4096, dtype="bfloat16", a="km"),
    "fp16_batched": Layout(batch=(64,), m=512, n=512, k=256, dtype="float16"),
    "many_48": Layout(batch=(20000,), m=48, n=48, k=48, epilogue="plain"),
    "bf16_deep": Layout(m=256, n=256, k=65536, dtype="bfloat16", b="nk"),
    "bf16_odd": Layout(m=1021, n=2039, k=1537, dtype="bfloat16", b="nk"),
    "fp32_vector": Layout(m=16384, n=1, k=16384),
    "bf16_vector": Layout(m=1, n=16384, k=16384, dtype="bfloat16", b="kn"),
    "bf16_gated": Layout(m=8192, n=5504, k=2048, dtype="bfloat16", b="nk", epilogue="gated"),
    "bf16_four_rows": Layout(m=4, n=16384, k=8192, dtype="bfloat16", b="nk"),
}


def large_cases() -> dict[str, Case]:
    """Sizes that fill a GPU."""
    return {name: case(layout) for name, layout in LARGE.items()}
