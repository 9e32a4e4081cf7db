"""Plans of one loop step, written in few words: `plan_of` and bodies that several tests use."""

from typing import Any

from programs.examples import contiguous

from warpsmith.state.lowered import Symbol, Value
from warpsmith.state.program import ForwardPlan, Load, LoopProgram, Statement, Store
from warpsmith.state.sizes import Size


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


def flags(*flags: int) -> tuple[bool, ...]:
    return tuple(bool(flag) for flag in flags)


def program_of(plan: ForwardPlan) -> LoopProgram:
    step = plan.steps[0]
    assert isinstance(step, LoopProgram)
    return step
