"""Reading code out of what a model said."""

from collections.abc import Callable

from ..models.protocol import Answer
from .reading import Reading, Wanted, read_code, read_kernel

Reader = Callable[[Answer, Wanted], Reading]

__all__ = ["Reader", "Reading", "Wanted", "read_code", "read_kernel"]
