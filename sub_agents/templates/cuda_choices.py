"""Choices that several CUDA templates share, and typed reading of settings."""

from collections.abc import Mapping

from ...state.dtypes import BYTES
from ...state.program import Load, LoopProgram, Store
from ...state.sizes import value
from ..slots import Setting, Slot
from .cuda_merges import find_merges
from .cuda_render import specialise_slots
from .cuda_types import is_float

MOST_UNROLLED = 192
"""Elements of a thread for which code is laid out one by one, where only the compiler knows their number. Settings are
made for the main workload: another may have rows of many times its length."""


def number(setting: Setting, name: str) -> int:
    """An integer choice."""
    return int(setting[name])


def text(setting: Setting, name: str) -> str:
    """A named choice."""
    return str(setting[name])


def narrowest_bytes(program: LoopProgram) -> int:
    """Bytes of the smallest element that the program streams, one-byte flags apart."""
    sizes = [BYTES[load.dtype] for load in program.loads] + [BYTES[store.dtype] for store in program.stores]
    return min((size for size in sizes if size > 1), default=1)


def vector_choices(program: LoopProgram) -> tuple[int, ...]:
    """Elements a vector: up to 16 bytes of the narrowest element, at most 16."""
    widest = min(16, 16 // narrowest_bytes(program))
    return tuple(width for width in (1, 2, 4, 8, 16) if width <= widest)


def choice_of_width(program: LoopProgram) -> int:
    """The default vector: 16 bytes of the narrowest element."""
    width = 16 // narrowest_bytes(program)
    return max(w for w in vector_choices(program) if w <= width)


def passes_slot(program: LoopProgram) -> tuple[Slot, ...]:
    """Whether pairs of reductions share a pass; no choice where there are none."""
    every = frozenset(load.name for load in program.loads) | {s.name for s in program.body}
    choices = ("online", "separate") if find_merges(program, every) else ("separate",)
    return (Slot(name="passes", role="reduction", choices=choices, default=choices[0]),)


def tile_registers(program: LoopProgram, setting: Setting) -> int:
    """Registers that a thread's tile of loaded vectors takes."""
    held = sum(BYTES[load.dtype] for load in program.loads)
    return held * number(setting, "vector") * number(setting, "unroll") // 4


def default_unroll(program: LoopProgram, width: int, most: int) -> int:
    """Four vectors in flight, fewer where a thread's tile would take more than `most` registers."""
    return next((n for n in (4, 2) if tile_registers(program, {"vector": width, "unroll": n}) <= most), 1)


def moved_bytes(program: LoopProgram, hints: Mapping[str, int]) -> dict[str, int]:
    """Bytes that each access moves if everything is read and written once, by load name or stored value."""
    accesses: list[Load | Store] = [*program.loads, *program.stores]
    found = {}
    for access in accesses:
        points = 1
        for size, stride in zip(program.space, access.strides, strict=True):
            points *= value(size, hints) if stride != 0 else 1
        found[access.name if isinstance(access, Load) else access.value] = points * BYTES[access.dtype]
    return found


def maths_slots(program: LoopProgram) -> tuple[Slot, ...]:
    """Fast functions (the default where every floating result is rounded to half) and sizes as constants."""
    floats = [store.dtype for store in program.stores if is_float(store.dtype)]
    rounded = bool(floats) and all(dtype in ("float16", "bfloat16") for dtype in floats)
    return (
        Slot(
            name="fast_math",
            role="compute",
            choices=(False, True),
            default=rounded,
            about="about 2 ulp of float32 more error in functions and divisions",
        ),
        *specialise_slots(program),
    )
