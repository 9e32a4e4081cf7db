"""Writes Triton candidates."""
