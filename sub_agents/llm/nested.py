"""Running a subgraph inside a node of the controller, without checkpoints of its own."""

import warnings
from typing import Any

# A subgraph without checkpoints must still say how durable they are to be: it would inherit "sync" from a run that
# writes checkpoints, and then wait for one that never comes. LangGraph warns that saying so has no effect.
warnings.filterwarnings("ignore", message="`durability` has no effect")


def run_inside(graph: Any, state: dict[str, Any], context: object) -> dict[str, Any]:
    """The final state of a subgraph compiled with `checkpointer=False`; it shows as a nested run of the node."""
    return dict(graph.invoke(state, context=context, durability="exit"))
