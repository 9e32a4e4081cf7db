"""Matrix-product programs in the simplest equal form, and the facts about them that templates choose by."""

from collections.abc import Mapping
from math import prod
from typing import TypeVar

from ...state.base import Record
from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import Load, MatmulProgram, Operand, Store
from ...state.sizes import Size, factors, product, value
from ..slots import Setting
from .triton_instructions import reached

FACTOR_DTYPES = ("float32", "float16", "bfloat16")
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
        right = (program.b, *_also(program))
        others = [t for t in _tensors(program) if all(t is not each for each in right)]
        if all(each.strides[last] == 0 for each in right) and all(
            _steps_as_one(t.strides, last, program.m) for t in others
        ):
            return fold(_merged_into_m(program))
    return program


def _tensors(program: MatmulProgram) -> tuple[Strided, ...]:
    return (program.a, program.b, *_also(program), *program.loads, *program.stores)


def _also(program: MatmulProgram) -> tuple[Operand, ...]:
    return () if program.also is None else (program.also,)


def _steps_as_one(strides: tuple[Size, ...], axis: int, inner_size: Size) -> bool:
    return product((strides[axis + 1], inner_size)) == strides[axis]


def _dropped(tensor: T, axis: int) -> T:
    return tensor.model_copy(update={"strides": tensor.strides[:axis] + tensor.strides[axis + 1 :]})


def _restrided(program: MatmulProgram, drop: int) -> dict[str, object]:
    return {
        "a": _dropped(program.a, drop),
        "b": _dropped(program.b, drop),
        "also": None if program.also is None else _dropped(program.also, drop),
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
    """The operands' common dtype, None where they differ, no template takes it, or there are two products."""
    return None if program.also is not None else factor_dtype(program)


def factor_dtype(program: MatmulProgram) -> str | None:
    """As `operand_dtype`, for templates that also sum two products at once."""
    return None if program.b.windows is not None else tiled_dtype(program)


def tiled_dtype(program: MatmulProgram) -> str | None:
    """As `factor_dtype`, for templates that also read windows."""
    if program.a.softmax is not None:
        return None
    dtypes = {program.b.dtype, *(each.dtype for each in _also(program))}
    return program.a.dtype if dtypes == {program.a.dtype} and program.a.dtype in FACTOR_DTYPES else None


def by_channel(program: MatmulProgram) -> bool:
    """Whether it is a convolution of each channel by itself: one channel's windows in each matrix of the batch."""
    windows = program.b.windows
    return windows is not None and windows.channels == 1 and any(program.a.strides[:-2])


def products(program: MatmulProgram) -> int:
    """How many products the program sums side by side."""
    return 1 + len(_also(program))


def symbols(program: MatmulProgram) -> tuple[str, ...]:
    """Names of the symbols that sizes, strides, offsets or statements of the program use, sorted."""
    if program.scores is not None:
        plain = program.model_copy(update={"a": program.a.model_copy(update={"softmax": None})})
        return tuple(sorted({*symbols(plain), *symbols(program.scores)}))
    sizes: list[Size] = [*program.space, program.k]
    for tensor in _tensors(program):
        sizes.extend(tensor.strides)
        if not isinstance(tensor, Store):
            sizes.append(tensor.offset)
    if program.b.windows is not None:
        sizes.append(program.b.windows.channel_walk)
        sizes.extend(s for axis in program.b.windows.axes for s in (axis.places, axis.length, axis.walk))
    known = {"acc", "acc_1", *(load.name for load in program.loads), *(s.name for s in program.body)}
    for statement in program.body:
        sizes.extend(arg for arg in statement.args if isinstance(arg, str) and arg not in known)
    return tuple(sorted({name for size in sizes for name in factors(size)[1]}))


_STEPS = {"erf": 30, "gelu": 30, "tanh": 20, "exp": 8, "sigmoid": 12, "silu": 12, "log": 12, "pow": 30, "div": 8}
"""Instructions an element, roughly, of what is more than a few."""


def epilogue_steps(program: MatmulProgram) -> int:
    """Instructions an element of the result."""
    loads = sum(4 for load in program.loads if load.strides[-2] != 0 and load.strides[-1] != 0)
    return 4 * len(program.stores) + loads + sum(_STEPS.get(each.op, 2) for each in program.body)


def epilogue_share(program: MatmulProgram, sizes: Extent) -> float:
    """The epilogue's time over the product's on one Hopper multiprocessor, if neither hid the other."""
    # 128 lanes for the epilogue; tensor cores multiply and add 2048 pairs of halves a clock.
    return epilogue_steps(program) / 128 / (max(sizes.k, 1) / 2048)


def epilogue_bytes_moved(program: MatmulProgram, hints: Mapping[str, int]) -> int:
    """What the epilogue reads and writes, each element once."""
    moved = 0
    accesses: tuple[Load | Store, ...] = (*program.loads, *program.stores)
    for access in accesses:
        axes = zip(program.space, access.strides, strict=True)
        elements = prod(value(size, hints) for size, stride in axes if stride != 0)
        moved += elements * BYTES.get(access.dtype, 1)
    return moved


def large(sizes: Extent, device: DeviceSheet) -> bool:
    """Whether 128 x 128 tiles fill the device twice and their k is worth a pipeline."""
    tiles = sizes.batch * (sizes.m // 128) * (sizes.n // 128)
    return tiles >= 2 * device.sm_count and sizes.k >= 64


def worthwhile(sizes: Extent, setting: Setting, device: DeviceSheet) -> bool:
    """Whether a setting of a tiled product can be among the best: a search has few tries to spend."""
    tile_m, tile_n, splits = int(setting["tile_m"]), int(setting["tile_n"]), int(setting["split_k"])
    tiles = sizes.batch * -(-sizes.m // tile_m) * -(-sizes.n // tile_n)
    if splits > 1 and tiles * splits > 8 * device.sm_count:
        return False
    # A tile twice as long as its axis only adds work, down to the least that tensor cores take.
    if any(tile > 64 and tile >= 2 * size for tile, size in ((tile_m, sizes.m), (tile_n, sizes.n))):
        return False
    if not large(sizes, device):
        return True
    elements = tile_m * tile_n
    per_thread = elements // (32 * int(setting["num_warps"]))
    if elements < 64 * 128 or min(tile_m, tile_n) < 64 or per_thread < 32:
        return False
    if int(setting.get("epilogue_parts", 1)) > 1 and elements < 128 * 128:
        return False
    tile_k = int(setting.get("tile_k", 64))
    return tile_k * int(setting["num_stages"]) >= min(64, sizes.k) and tile_k < 2 * sizes.k


class Pace(Record):
    """What bounds a kernel besides its tiles."""

    rate_flops: float
    """FLOP/s of the product asked for that large tiles reach on a whole device."""
    split: bool = False
    """Whether a pass over the operands comes first."""
    flight_bytes: float | None = None
    """What a multiprocessor has under way, where that is not enough as a matter of course."""


def product_ms(
    program: MatmulProgram, setting: Setting, hints: Mapping[str, int], device: DeviceSheet, pace: Pace
) -> float:
    """Rough time: whole waves of tiles at a rate reached by large ones, epilogue, bytes, launches."""
    sizes, width = extent(program, hints), products(program)
    tile_m, tile_n, splits = int(setting["tile_m"]), int(setting["tile_n"]), int(setting["split_k"])
    count = sizes.batch * -(-sizes.m // tile_m) * -(-sizes.n // tile_n) * splits
    waves = -(-count // device.sm_count)
    # A small tile reads more for each product: 128 x 256 is where the rate was taken.
    tile_share: float = min(1.0, (tile_m * width * tile_n / (tile_m + width * tile_n) / 85) ** 0.5)
    tile_flops = 2 * width * tile_m * tile_n * -(-sizes.k // splits)
    product_s = waves * tile_flops * device.sm_count / (pace.rate_flops * tile_share)
    epilogue_s = waves * tile_m * tile_n * epilogue_steps(program) / 128 / 1.75e9
    # Only another program on the same multiprocessor multiplies under this one's epilogue.
    alone = width * tile_m * tile_n > 128 * 128
    compute_s = product_s + epilogue_s if alone else max(product_s, epilogue_s) + 0.3 * min(product_s, epilogue_s)
    windows = program.b.windows
    right = width * sizes.n * sizes.k if windows is None else value(windows.elements, hints)
    operand_bytes = sizes.batch * (sizes.m * sizes.k + right) * BYTES[program.a.dtype]
    parts_bytes = sizes.batch * sizes.m * sizes.n * 8 * splits * (splits > 1)
    moved_bytes = operand_bytes + epilogue_bytes_moved(program, hints) + parts_bytes
    rewritten_s = 2 * operand_bytes / device.copy_bytes_per_s if pace.split else 0.0
    launches = 1 + (splits > 1) + 2 * pace.split
    # Tiles stream less evenly than a kernel made for copying.
    moved_s = moved_bytes / (0.85 * device.copy_bytes_per_s)
    if pace.flight_bytes is not None:
        moved_s /= reached(pace.flight_bytes)
    return 1e3 * (max(compute_s, moved_s) + rewritten_s) + 0.003 * launches
