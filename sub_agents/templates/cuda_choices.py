"""Choices that several CUDA templates share, and typed reading of settings."""

from ...state.program import LoopProgram
from ..slots import Setting
from .cuda_types import BYTES


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
