"""Writes CUDA C++ candidates."""

from .offline import CudaWriter

__all__ = ["CudaWriter"]
