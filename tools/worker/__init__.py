"""Code that runs only in worker processes: the one place that imports torch, triton and cupy."""
