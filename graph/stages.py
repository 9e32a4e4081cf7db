"""Stages: the parts of the controller switched on one after the other, so that what each adds can be measured.

    one-shot      the writer's first candidate, judged once
    correctness   independent candidates until the budget ends; writers hear of errors, never of times
    profiler      a greedy chain that hears times, counters and bottlenecks
    search        the strategy, with phases and a pool
    hardened      notable gains measured twice, cross-validation, and the next best where a winner fails

Below `hardened` the best by the first verdict would be handed out as it is. The full judge still sees it, as an audit:
what it refuses is what that stage would have wrongly accepted, and is not handed out.
"""

from ..state.channels import Context
from ..state.feedback import Feedback

TOLD_TIMES = ("profiler", "search", "hardened")
"""Stages in which writers hear how fast candidates were, and which are best."""


def staged(context: Context) -> Context:
    """The settings that a stage stands for; the same again for settings that are staged already."""
    match context.stage:
        case "one-shot":
            fixed: dict[str, object] = {"budget": 1, "width": 1, "profiles": 0, "confirm": False, "strategy": "sample"}
        case "correctness":
            fixed = {"profiles": 0, "confirm": False, "strategy": "sample"}
        case "profiler":
            fixed = {"confirm": False, "strategy": "chain"}
        case "search":
            fixed = {"confirm": False}
        case _:
            return context
    return context.model_copy(update=fixed)


def told(feedback: Feedback, context: Context) -> Feedback:
    """Feedback as a stage lets writers hear it: without times, trend and bottleneck where these are off."""
    if context.stage in TOLD_TIMES:
        return feedback
    right = not feedback.error_digest and feedback.trend != "failed"
    return feedback.model_copy(update={"time": "", "trend": "first" if right else "failed", "bottleneck": ""})
