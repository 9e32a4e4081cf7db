"""Matrix-product programs in the simplest equal form, and the facts about them that templates choose by."""

from collections.abc import Mapping
from math import prod
from typing import TypeVar

from ...state.base import Record
from ...state.device import DeviceSheet
from ...state.program import Load, MatmulProgram, Operand, Store
from ...state.sizes import Size, factors, product, value
from ..slots import Setting

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Operand types that tensor cores take, or that templates emulate on them."""

Strided = Operand | Load | Store
T = TypeVar("T", Operand, Load, Store)


def fold(program: MatmulProgram) -> MatmulProgram:
    """The same product over as few batch axes as the strides permit.

    Batch axes of size 1 go, neighbouring ones merge where every tensor steps through them as through one, and the
    innermost merges into m where b does not depend on it (a linear layer on a 3-D input is a plain 2-D product).
    """
    for axis, size in enumerate(program.batch):
        if size == 1:
            return fold(_without(program, axis))
    for axis in range(len(program.batch) - 1):
        if all(_steps_as_one(t.strides, axis, program.batch[axis + 1]) for t in _tensors(program)):
            return fold(_merged(program, axis))
    last = len(program.batch) - 1
    if last >= 0 and program.b.strides[last] == 0:
        others = [t for t in _tensors(program) if t is not program.b]
        if all(_steps_as_one(t.strides, last, program.m) for t in others):
            return fold(_merged_into_m(program))
    return program


def _tensors(program: MatmulProgram) -> tuple[Strided, ...]:
    return (program.a, program.b, *program.loads, *program.stores)


def _steps_as_one(strides: tuple[Size, ...], axis: int, inner_size: Size) -> bool:
    return product((strides[axis + 1], inner_size)) == strides[axis]


def _dropped(tensor: T, axis: int) -> T:
    return tensor.model_copy(update={"strides": tensor.strides[:axis] + tensor.strides[axis + 1 :]})


def _restrided(program: MatmulProgram, drop: int) -> dict[str, object]:
    return {
        "a": _dropped(program.a, drop),
        "b": _dropped(program.b, drop),
        "loads": tuple(_dropped(load, drop) for load in program.loads),
        "stores": tuple(_dropped(store, drop) for store in program.stores),
    }


def _without(program: MatmulProgram, axis: int) -> MatmulProgram:
    batch = program.batch[:axis] + program.batch[axis + 1 :]
    return program.model_copy(update={"batch": batch, **_restrided(program, axis)})


def _merged(program: MatmulProgram, axis: int) -> MatmulProgram:
    size = product(program.batch[axis : axis + 2])
    batch = (*program.batch[:axis], size, *program.batch[axis + 2 :])
    return program.model_copy(update={"batch": batch, **_restrided(program, axis)})


def _merged_into_m(program: MatmulProgram) -> MatmulProgram:
    last = len(program.batch) - 1
    m = product((program.batch[last], program.m))
    return program.model_copy(update={"batch": program.batch[:last], "m": m, **_restrided(program, last)})


class Extent(Record):
    """A product's sizes as numbers, at the hints of its symbols."""

    batch: int
    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k


def extent(program: MatmulProgram, hints: Mapping[str, int]) -> Extent:
    """Sizes of the program as it stands (fold it first)."""
    return Extent(
        batch=prod(value(size, hints) for size in program.batch),
        m=value(program.m, hints),
        n=value(program.n, hints),
        k=value(program.k, hints),
    )


def operand_dtype(program: MatmulProgram) -> str | None:
    """The operands' common dtype, None where they differ or no template takes it."""
    dtype = program.a.dtype
    return dtype if dtype == program.b.dtype and dtype in BYTES else None


def symbols(program: MatmulProgram) -> tuple[str, ...]:
    """Names of the symbols that sizes, strides, offsets or statements of the program use, sorted."""
    sizes: list[Size] = [*program.space, program.k]
    for tensor in _tensors(program):
        sizes.extend(tensor.strides)
        if not isinstance(tensor, Store):
            sizes.append(tensor.offset)
    known = {"acc", *(load.name for load in program.loads), *(s.name for s in program.body)}
    for statement in program.body:
        sizes.extend(arg for arg in statement.args if isinstance(arg, str) and arg not in known)
    return tuple(sorted({name for size in sizes for name in factors(size)[1]}))


def reads(program: MatmulProgram) -> tuple[str, ...]:
    """Values that the kernel reads, in order of first use."""
    return tuple(dict.fromkeys([program.a.value, program.b.value, *(load.value for load in program.loads)]))


def product_ms(
    program: MatmulProgram,
    setting: Setting,
    hints: Mapping[str, int],
    device: DeviceSheet,
    rate_flops: float,
    *,
    split: bool = False,
) -> float:
    """Rough time of a tiled product: whole waves of tiles at a rate reached by large ones, bytes, launches.

    `rate_flops` is in FLOP/s of the product asked for, on a whole device. `split` adds a pass over the operands.
    """
    sizes = extent(program, hints)
    tile_m, tile_n, splits = int(setting["tile_m"]), int(setting["tile_n"]), int(setting["split_k"])
    count = sizes.batch * -(-sizes.m // tile_m) * -(-sizes.n // tile_n) * splits
    # A small tile reads more for each product: 128 x 256 is where the rate was taken.
    tile_share: float = min(1.0, (tile_m * tile_n / (tile_m + tile_n) / 85) ** 0.5)
    tile_flops = 2 * tile_m * tile_n * -(-sizes.k // splits)
    compute_s = -(-count // device.sm_count) * tile_flops * device.sm_count / (rate_flops * tile_share)
    operand_bytes = sizes.batch * (sizes.m + sizes.n) * sizes.k * BYTES[program.a.dtype]
    moved_bytes = operand_bytes + sizes.batch * sizes.m * sizes.n * (4 + 8 * splits * (splits > 1))
    rewritten_s = 2 * operand_bytes / device.copy_bytes_per_s if split else 0.0
    launches = 1 + (splits > 1) + 2 * split
    # Tiles stream less evenly than a kernel made for copying.
    moved_s = moved_bytes / (0.85 * device.copy_bytes_per_s)
    return 1e3 * (max(compute_s, moved_s) + rewritten_s) + 0.003 * launches
