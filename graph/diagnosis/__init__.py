"""What probably limits a kernel, by rules on static facts, timings and counters. A hint to writers, never a verdict."""

from .engine import bottleneck, diagnose
from .evidence import product_flops

__all__ = ["bottleneck", "diagnose", "product_flops"]
