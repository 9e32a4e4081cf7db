"""Running a subgraph inside a node of the controller, without checkpoints of its own."""

from typing import Any

from langchain_core.runnables.config import ensure_config

# A run that waits for each of its checkpoints ("sync") hands that down, and a subgraph without checkpoints then fails,
# for what it waits for never comes. The argument `durability` is for graphs with checkpoints, so what is handed down is
# changed instead, by LangGraph's name for it, to what a graph does that inherits nothing.
HANDED_DOWN, UNAWAITED = "__pregel_durability", "async"


def run_inside(graph: Any, state: dict[str, Any], context: object) -> dict[str, Any]:
    """The final state of a subgraph compiled with `checkpointer=False`; it shows as a nested run of the node."""
    inherited = ensure_config().get("configurable", {})
    config = {"configurable": {**inherited, HANDED_DOWN: UNAWAITED}}
    return dict(graph.invoke(state, config, context=context))
