"""Loop programs for the CUDA templates beyond `programs.examples`, and how a template is held to the interpreter."""

from typing import Any

import torch
from cuda_emulation import emulation
from programs.examples import EXAMPLES, contiguous
from programs.interpreter import run_plan

from warpsmith.state.device import DeviceSheet
from warpsmith.state.lowered import Symbol, Value
from warpsmith.state.program import ForwardPlan, Load, LoopProgram, Statement, Store
from warpsmith.state.sizes import Size
from warpsmith.state.sizes import value as number
from warpsmith.sub_agents.kernel_source import KernelSource, Template
from warpsmith.sub_agents.slots import Setting

H200 = DeviceSheet(
    name="H200",
    arch="sm_90",
    sm_count=132,
    l2_bytes=50 * 2**20,
    shared_bytes_per_block=232448,
    shared_bytes_per_sm=233472,
    memory_bytes=141 * 10**9,
    peak_bytes_per_s=4.8e12,
    copy_bytes_per_s=4.3e12,
)


def plan_of(  # noqa: PLR0913 - test data reads best in one call
    shape: tuple[Size, ...],
    reduced: tuple[bool, ...],
    body: list[tuple[Any, ...]],
    stores: dict[str, tuple[str, str]],
    *,
    loads: dict[str, tuple[Size, ...]] | None = None,
    dtypes: dict[str, str] | None = None,
    symbols: dict[str, tuple[int, int, int]] | None = None,
) -> ForwardPlan:
    """A one-step plan. `body` rows are (name, op, dtype, level, *args); `stores` maps a value to (name, dtype).

    `loads` gives strides by value (default: one contiguous `x`); load `x` is read as `in_x`.
    """
    loads, dtypes = loads or {"x": contiguous(shape)}, dtypes or {}
    kept = tuple(size for size, flag in zip(shape, reduced, strict=True) if not flag)
    values, made = {}, []
    for name, strides in loads.items():
        used = tuple(size for size, stride in zip(shape, strides, strict=True) if stride != 0)
        values[name] = Value(shape=used, dtype=dtypes.get(name, "float32"))
    for value, (name, dtype) in stores.items():
        once = any(reduced) and not _varies(name, body)
        own = kept if once else shape
        values[value] = Value(shape=own, dtype=dtype)
        strides = iter(contiguous(own))
        made.append(
            Store(
                name=name,
                value=value,
                dtype=dtype,
                strides=tuple(0 if once and flag else next(strides) for flag in reduced),
            )
        )
    program = LoopProgram(
        name="case",
        space=shape,
        reduced=reduced,
        loads=tuple(
            Load(name=f"in_{name}", value=name, dtype=dtypes.get(name, "float32"), strides=strides)
            for name, strides in loads.items()
        ),
        body=tuple(Statement(name=n, op=op, dtype=d, level=level, args=tuple(a)) for n, op, d, level, *a in body),
        stores=tuple(made),
    )
    return ForwardPlan(
        inputs=tuple(loads),
        symbols=tuple(Symbol(name=s, input=i, dim=d, hint=h) for s, (i, d, h) in (symbols or {}).items()),
        values=values,
        steps=(program,),
        returns=[{"ref": value} for value in stores],
    )


def _varies(name: str, body: list[tuple[Any, ...]]) -> bool:
    """Whether a value differs along the reduced axes: it is reached from a load or iota without a reduction between."""
    rows = {row[0]: row for row in body}
    if name not in rows:
        return True
    row = rows[name]
    if row[1].startswith("reduce_"):
        return False
    return row[1] == "iota" or any(_varies(arg, body) for arg in row[4:] if isinstance(arg, str))


def softmax_body(dtype: str = "float32") -> list[tuple[Any, ...]]:
    return [
        ("peak", "reduce_max", dtype, 0, "in_x"),
        ("shifted", "sub", dtype, 1, "in_x", "peak"),
        ("weight", "exp", dtype, 1, "shifted"),
        ("total", "reduce_sum", dtype, 1, "weight"),
        ("result", "div", dtype, 2, "weight", "total"),
    ]


def moments_body(count: int) -> list[tuple[Any, ...]]:
    return [
        ("total", "reduce_sum", "float32", 0, "in_x"),
        ("mean", "div", "float32", 1, "total", count),
        ("d", "sub", "float32", 1, "in_x", "mean"),
        ("sq", "mul", "float32", 1, "d", "d"),
        ("squares", "reduce_sum", "float32", 1, "sq"),
        ("variance", "div", "float32", 2, "squares", count),
        ("result", "mul", "float32", 2, "d", "variance"),
    ]


def _flags(*flags: int) -> tuple[bool, ...]:
    return tuple(bool(flag) for flag in flags)


ROW_CASES: dict[str, ForwardPlan] = {
    "softmax_fp16_aligned": plan_of(
        (5, 256), _flags(0, 1), softmax_body("float16"), {"y": ("result", "float16")}, dtypes={"x": "float16"}
    ),
    "softmax_bf16_odd": plan_of(
        (3, 77), _flags(0, 1), softmax_body("bfloat16"), {"y": ("result", "bfloat16")}, dtypes={"x": "bfloat16"}
    ),
    "softmax_double": plan_of(
        (3, 40), _flags(0, 1), softmax_body("float64"), {"y": ("result", "float64")}, dtypes={"x": "float64"}
    ),
    "variance_and_mean": plan_of(
        (7, 192),
        _flags(0, 1),
        moments_body(192),
        {"y": ("result", "float32"), "m": ("mean", "float32"), "v": ("variance", "float32")},
    ),
    "extremes": plan_of(
        (6, 50),
        _flags(0, 1),
        [
            ("high", "reduce_argmax", "int64", 0, "in_x"),
            ("low", "reduce_argmin", "int64", 0, "in_x"),
            ("least", "reduce_min", "float32", 0, "in_x"),
            ("small", "mul", "float32", 0, "in_x", 0.5),
            ("prod", "reduce_prod", "float32", 0, "small"),
            ("over", "gt", "bool", 0, "in_x", 2.0),
            ("any", "reduce_any", "bool", 0, "over"),
            ("under", "lt", "bool", 0, "in_x", 5.0),
            ("all", "reduce_all", "bool", 0, "under"),
        ],
        {
            "a": ("high", "int64"),
            "b": ("low", "int64"),
            "c": ("least", "float32"),
            "d": ("prod", "float32"),
            "e": ("any", "bool"),
            "f": ("all", "bool"),
        },
    ),
    "integer_sum": plan_of(
        (4, 33),
        _flags(0, 1),
        [("total", "reduce_sum", "int64", 0, "in_x"), ("top", "reduce_max", "int32", 0, "in_x")],
        {"y": ("total", "int64"), "z": ("top", "int32")},
        dtypes={"x": "int32"},
    ),
    "residual_with_row_scale": plan_of(
        (9, 64),
        _flags(0, 1),
        [
            ("scaled", "mul", "float32", 0, "in_x", "in_scale"),
            ("both", "add", "float32", 0, "scaled", "in_r"),
            ("act", "sigmoid", "float32", 0, "both"),
            ("sq", "square", "float32", 0, "act"),
            ("total", "reduce_sum", "float32", 0, "sq"),
            ("norm", "sqrt", "float32", 1, "total"),
            ("result", "div", "float32", 1, "act", "norm"),
        ],
        {"h": ("both", "float32"), "y": ("result", "float32"), "n": ("norm", "float32")},
        loads={"x": (64, 1), "scale": (1, 0), "r": (64, 1)},
    ),
    "channel_norm": plan_of(
        (2, 24, 40),
        _flags(0, 1, 0),
        [
            ("sq", "square", "float32", 0, "in_x"),
            ("total", "reduce_sum", "float32", 0, "sq"),
            ("mean", "div", "float32", 1, "total", 24),
            ("scale", "rsqrt", "float32", 1, "mean"),
            ("n", "mul", "float32", 1, "in_x", "scale"),
            ("result", "mul", "float32", 1, "n", "in_w"),
            ("shifted", "add", "float32", 1, "result", "in_b"),
        ],
        {"y": ("shifted", "float32"), "s": ("scale", "float32")},
        loads={"x": (960, 40, 1), "w": (0, 1, 0), "b": (0, 0, 1)},
    ),
    "column_moments_bf16": plan_of(
        (2, 50, 24),
        _flags(0, 1, 0),
        moments_body(50),
        {"y": ("result", "bfloat16"), "v": ("variance", "float32")},
        dtypes={"x": "bfloat16"},
    ),
    "column_sum_long": plan_of(
        (700, 12),
        _flags(1, 0),
        [("total", "reduce_sum", "float32", 0, "in_x"), ("place", "reduce_argmin", "int64", 0, "in_x")],
        {"y": ("total", "float32"), "i": ("place", "int64")},
    ),
    "column_softmax_symbolic": plan_of(
        ("s0", "s1", 16),
        _flags(0, 1, 0),
        softmax_body(),
        {"y": ("result", "float32")},
        symbols={"s0": (0, 0, 3), "s1": (0, 1, 30)},
    ),
    "two_reduced_axes_apart": plan_of(
        (6, 5, 8, 4),
        _flags(1, 0, 1, 0),
        [
            ("total", "reduce_sum", "float32", 0, "in_x"),
            ("place", "iota", "int64", 0, 2),
            ("weight", "cast", "float32", 0, "place"),
            ("moment", "mul", "float32", 0, "in_x", "weight"),
            ("second", "reduce_sum", "float32", 0, "moment"),
        ],
        {"y": ("total", "float32"), "z": ("second", "float32")},
    ),
    "one_column": plan_of((5, 1), _flags(0, 1), softmax_body(), {"y": ("result", "float32")}),
    "one_row_long": plan_of((1, 5000), _flags(0, 1), moments_body(5000), {"y": ("result", "float32")}),
    "softmax_past_shared_memory": plan_of((1, 30000), _flags(0, 1), softmax_body(), {"y": ("result", "float32")}),
    "mean_of_few_long_rows": plan_of(
        (3, 5000),
        _flags(0, 1),
        [
            ("total", "reduce_sum", "float32", 0, "in_x"),
            ("at", "reduce_argmax", "int64", 0, "in_x"),
            ("mean", "div", "float32", 1, "total", 5000),
        ],
        {"y": ("mean", "float32"), "i": ("at", "int64")},
    ),
    "softmax_long": plan_of(
        (2, 9216), _flags(0, 1), softmax_body("bfloat16"), {"y": ("result", "bfloat16")}, dtypes={"x": "bfloat16"}
    ),
    "softmax_odd_long": plan_of(
        (3, 9217), _flags(0, 1), softmax_body("bfloat16"), {"y": ("result", "bfloat16")}, dtypes={"x": "bfloat16"}
    ),
    "norm_of_odd_rows": plan_of(
        ("s0", 4099),
        _flags(0, 1),
        [
            *moments_body(4099)[:-1],
            ("scaled", "mul", "float32", 2, "d", "in_w"),
            ("result", "mul", "float32", 2, "scaled", "variance"),
            ("high", "reduce_argmax", "int64", 0, "in_x"),
        ],
        {"y": ("result", "float32"), "m": ("mean", "float32"), "i": ("high", "int64")},
        loads={"x": (4099, 1), "w": (0, 1)},
        symbols={"s0": (0, 0, 5)},
    ),
    "symbolic_columns": plan_of(
        ("s0", "s1"),
        _flags(0, 1),
        softmax_body(),
        {"y": ("result", "float32"), "t": ("total", "float32")},
        symbols={"s0": (0, 0, 6), "s1": (0, 1, 512)},
    ),
}
"""Reductions, most of them over contiguous columns."""

POINTWISE_CASES: dict[str, ForwardPlan] = {
    "flat_with_tail": plan_of((1027,), _flags(0), [("t", "tanh", "float32", 0, "in_x")], {"y": ("t", "float32")}),
    "aligned_bf16_to_float": plan_of(
        (64, 128),
        _flags(0, 0),
        [("t", "cast", "float32", 0, "in_x"), ("u", "mul", "float32", 0, "t", "in_s")],
        {"y": ("u", "float32"), "h": ("u", "float16")},
        loads={"x": (128, 1), "s": (0, 0)},
        dtypes={"x": "bfloat16"},
    ),
    "transposed": plan_of(
        (48, 70),
        _flags(0, 0),
        [("t", "add", "float32", 0, "in_x", "in_r")],
        {"y": ("t", "float32")},
        loads={"x": (1, 48), "r": (70, 1)},
    ),
    "transposed_batch": plan_of(
        (3, 32, 64),
        _flags(0, 0, 0),
        [("t", "add", "bfloat16", 0, "in_x", "in_r")],
        {"y": ("t", "bfloat16")},
        loads={"x": (2048, 1, 32), "r": (0, 0, 1)},
        dtypes={"x": "bfloat16", "r": "bfloat16"},
    ),
    "broadcast_middle": plan_of(
        (4, 6, 8),
        _flags(0, 0, 0),
        [
            ("i", "iota", "int64", 0, 1),
            ("f", "cast", "float32", 0, "i"),
            ("t", "mul", "float32", 0, "in_x", "f"),
            ("u", "add", "float32", 0, "t", "in_b"),
        ],
        {"y": ("u", "float32")},
        loads={"x": (48, 8, 1), "b": (8, 0, 1)},
    ),
    "odd_planes": plan_of(
        ("s0", 5, 77),
        _flags(0, 0, 0),
        [
            ("i", "iota", "int64", 0, 1),
            ("f", "cast", "float32", 0, "i"),
            ("t", "mul", "float32", 0, "in_x", "f"),
            ("u", "add", "float32", 0, "t", "in_b"),
            ("v", "mul", "float32", 0, "u", "in_c"),
        ],
        {"y": ("v", "bfloat16")},
        loads={"x": (385, 77, 1), "b": (0, 1, 0), "c": (0, 0, 1)},
        dtypes={"x": "bfloat16"},
        symbols={"s0": (0, 0, 3)},
    ),
    "pixels": plan_of(
        (211, 3),
        _flags(0, 0),
        [("f", "cast", "float32", 0, "in_x"), ("t", "mul", "float32", 0, "f", "in_b")],
        {"y": ("t", "float32")},
        loads={"x": (3, 1), "b": (0, 1)},
        dtypes={"x": "uint8"},
    ),
    "integers": plan_of(
        (3, 40),
        _flags(0, 0),
        [
            ("q", "floor_div", "int64", 0, "in_x", 7),
            ("r", "remainder", "int64", 0, "in_x", 7),
            ("c", "fmod", "int64", 0, "in_x", 7),
            ("e", "bitwise_and", "int64", 0, "in_x", 12),
            ("s", "sign", "int64", 0, "in_x"),
        ],
        {k: (k, "int64") for k in "qrces"},
        dtypes={"x": "int64"},
    ),
    "scalar": plan_of((), (), [("t", "exp", "float32", 0, "in_x")], {"y": ("t", "float32")}, loads={"x": ()}),
    "symbolic_flat": plan_of(
        ("s0",), _flags(0), [("t", "erf", "float32", 0, "in_x")], {"y": ("t", "float32")}, symbols={"s0": (0, 0, 300)}
    ),
}

LOOP_EXAMPLES = {name: plan for name, plan in EXAMPLES.items() if isinstance(plan.steps[0], LoopProgram)}
CASES: dict[str, ForwardPlan] = {**LOOP_EXAMPLES, **ROW_CASES, **POINTWISE_CASES}


def program_of(plan: ForwardPlan) -> LoopProgram:
    step = plan.steps[0]
    assert isinstance(step, LoopProgram)
    return step


def draw(plan: ForwardPlan, rng_seed: int = 0, misaligned: bool = False) -> list[torch.Tensor]:
    """Normal (or small integer) tensors for the plan's inputs; `misaligned` ones start one element late."""
    generator = torch.Generator().manual_seed(rng_seed)
    drawn = []
    for name in plan.inputs:
        record = plan.values[name]
        shape = [number(size, plan.hints) for size in record.shape]
        dtype = getattr(torch, record.dtype)
        if dtype.is_floating_point:
            made = torch.randn(shape, generator=generator).to(dtype)
        else:
            made = torch.randint(-20, 20, shape, generator=generator).to(dtype)
        if misaligned:
            holder = torch.zeros(made.numel() + 1, dtype=dtype)
            holder[1:] = made.reshape(-1)
            made = holder[1:].view(shape)
        drawn.append(made)
    return drawn


def default(template: Template, plan: ForwardPlan) -> Setting:
    return {slot.name: slot.default for slot in template.slots(program_of(plan), plan.hints, H200)}


def render(template: Template, plan: ForwardPlan, setting: Setting) -> KernelSource:
    values = {name: (record.shape, record.dtype) for name, record in plan.values.items()}
    return template.render(program_of(plan), setting, values)


def emulated(
    template: Template, plan: ForwardPlan, setting: Setting, tensors: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Outputs of the whole host function on the CPU emulation."""
    source = render(template, plan, setting)
    symbols = {s.name: tensors[s.input].shape[s.dim] for s in plan.symbols}
    return list(emulation.run(source, dict(zip(plan.inputs, tensors, strict=True)), symbols))


def check(template: Template, plan: ForwardPlan, setting: Setting, tensors: list[torch.Tensor]) -> None:
    """Emulates the kernel and compares every output with the brute-force interpreter."""
    outputs = emulated(template, plan, setting, tensors)
    expected = run_plan(plan, tensors)
    wanted = expected if isinstance(expected, (list, tuple)) else [expected]
    assert len(outputs) == len(wanted)
    for mine, want in zip(outputs, wanted, strict=True):
        assert mine.dtype == want.dtype
        assert mine.shape == want.shape
        tolerance = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float64: 1e-10}.get(want.dtype, 2e-5)
        torch.testing.assert_close(mine, want, rtol=tolerance, atol=tolerance, equal_nan=True)
