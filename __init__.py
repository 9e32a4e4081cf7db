"""Warpsmith finds the fastest correct GPU kernel for a PyTorch reference, and proves it."""

__version__ = "0.1.0"
