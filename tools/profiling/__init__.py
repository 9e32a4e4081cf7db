"""Nsight Compute: what is measured, how it is asked, and how its answer is read."""
