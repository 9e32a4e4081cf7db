"""At which other sizes the best kernel falls short, and the plan for those. Pure."""

from ..state.evaluation import Evaluation
from ..state.lowered import bound
from ..state.plan import Plan
from ..state.problem import Problem, Workload
from ..state.program import ForwardPlan

SHORT = 0.8
"""Fraction of the speed of light below which a size is worth kernels of its own."""
LEAST_MS = 0.005
"""Calls shorter than this are mostly a launch, which no other kernel makes shorter."""
MOST_SIZES = 2


def falls_short(problem: Problem, best: Evaluation) -> tuple[Workload, ...]:
    """Timed workloads besides the main one, which the search was about, where the best is far from the speed of light:
    the farthest first, at most MOST_SIZES.
    """
    fractions = {
        timing.workload: timing.sol_fraction
        for timing in best.timings
        if timing.candidate.median_ms > LEAST_MS and timing.sol_fraction < SHORT
    }
    others = [each for each in problem.timed_workloads if each.name in fractions and each != problem.primary]
    return tuple(sorted(others, key=lambda each: fractions[each.name])[:MOST_SIZES])


def plan_at(plan: Plan, workload: Workload) -> Plan | None:
    """The plan with the sizes that a workload has, which writers choose by; None where no size of it is another."""
    forward = _forward_at(plan.forward, workload)
    if forward is None or forward == plan.forward:
        return None
    return plan.model_copy(update={"forward": forward, "apart": _forward_at(plan.apart, workload)})


def _forward_at(forward: ForwardPlan | None, workload: Workload) -> ForwardPlan | None:
    if forward is None:
        return None
    try:
        hints = bound(forward.symbols, lambda number, dim: int(workload.inputs[number]["shape"][dim]))
        symbols = tuple(symbol.model_copy(update={"hint": hints[symbol.name]}) for symbol in forward.symbols)
    except (IndexError, KeyError, TypeError):  # An optional input that this workload leaves out.
        return None
    return forward.model_copy(update={"symbols": symbols})
