"""Lowered graph to kernel programs and strategies."""

from .expansion import Unplannable
from .forward import forward_plan
from .offline import OfflinePlanner

__all__ = ["OfflinePlanner", "Unplannable", "forward_plan"]
