"""Writes CUDA C++ candidates."""
