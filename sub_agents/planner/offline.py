"""The planner that needs no model: structure in, kernel programs and strategies out."""

from ...state.device import DeviceSheet
from ...state.lowered import LoweredGraph
from ...state.plan import Plan, Strategy
from ...state.problem import Problem
from ...state.program import LoopProgram, MatmulProgram
from ...state.wording import counted
from .expansion import Unplannable
from .forward import forward_plan, plan_apart
from .layout import Refused
from .strategies import strategies


class OfflinePlanner:
    """Plans from the lowered graph alone; the problem's name and text play no part."""

    def plan(self, problem: Problem, graph: LoweredGraph, device: DeviceSheet) -> Plan:
        """Programs and strategies; `forward` is None, and the summary says why, where nothing is covered."""
        try:
            forward = forward_plan(graph)
        except (Unplannable, Refused) as reason:
            return Plan(summary=f"not covered by templates: {reason}", strategies=_without_programs())
        kernels = [step for step in forward.steps if isinstance(step, (LoopProgram, MatmulProgram))]
        if not kernels:
            named = ", ".join(forward.uncovered) or "no operator at all"
            return Plan(summary=f"not covered by templates: {named}", strategies=_without_programs())
        operators = sum("." in node.op for node in graph.nodes)
        size = f"{counted(operators, 'operator')} as {counted(len(kernels), 'kernel')}"
        summary = f"{size}: {', '.join(step.name for step in kernels)}"
        if forward.uncovered:
            summary += f"; stays in PyTorch: {', '.join(forward.uncovered)}"
        try:
            apart = plan_apart(graph, forward)
        except (Unplannable, Refused):
            apart = None  # The plan in kernels of its own stands without the other.
        if apart is not None:
            summary += "; or with convolutions and attention by PyTorch's library or in parts"
        return Plan(summary=summary, strategies=strategies(forward, device, operators), forward=forward, apart=apart)


def _without_programs() -> tuple[Strategy, ...]:
    return (
        Strategy(name="write by hand", expected_speedup=1.2, why="templates do not express the reference"),
        Strategy(name="fuse around library calls", expected_speedup=1.1, why="pointwise work next to calls that stay"),
    )
