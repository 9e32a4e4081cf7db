"""What a planner is, offline or with a model behind it."""

from typing import Protocol

from ..state.device import DeviceSheet
from ..state.lowered import LoweredGraph
from ..state.plan import Plan
from ..state.problem import Problem


class Planner(Protocol):
    """Turns a lowered reference into strategies and kernel programs."""

    def plan(self, problem: Problem, graph: LoweredGraph, device: DeviceSheet) -> Plan: ...
