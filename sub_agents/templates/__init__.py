"""Kernel templates with typed slots, in Triton and CUDA."""
