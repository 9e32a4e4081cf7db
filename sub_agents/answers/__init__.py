"""Reading code out of what a model said."""

from .reading import Reading, Wanted, read_code, read_kernel

__all__ = ["Reading", "Wanted", "read_code", "read_kernel"]
