"""Writes Triton candidates."""

from .offline import TritonWriter

__all__ = ["TritonWriter"]
