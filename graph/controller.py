"""The controller: a deterministic graph that owns control flow. `graph` is what the LangGraph server loads."""

from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from ..state.channels import Context, EvaluateTask, ProposeTask, RunInput, RunOutput, State
from ..state.trajectory import PHASES
from .nodes import combining, finish, fitting, loop, start
from .routers import (
    again_or_on,
    ask_writers,
    check_or_report,
    done_or_next_best,
    first_phase,
    profile_or_not,
    send_to_evaluation,
)
from .search import patience_of
from .stages import staged

Controller = CompiledStateGraph[State, Context, RunInput, RunOutput]


def build_graph(checkpointer: "BaseCheckpointSaver[Any] | None" = None) -> Controller:
    """load -> vet -> baseline -> plan -> (explore | rewrite | tune)* -> fit_sizes -> combine -> cross_validate
    -> final_check -> report.

    The three phases share one loop: propose -> schedule -> evaluate -> profile? -> diagnose -> feedback -> record.
    """
    builder: StateGraph[State, Context, RunInput, RunOutput] = StateGraph(
        State, context_schema=Context, input_schema=RunInput, output_schema=RunOutput
    )
    builder.add_node("load_problem", start.load_problem, metadata={"role": "harness"}, input_schema=RunInput)
    builder.add_node("vet_problem", start.vet_problem, metadata={"role": "harness"})
    builder.add_node("measure_baseline", start.measure_baseline, metadata={"role": "harness"})
    builder.add_node("plan", start.plan, metadata={"role": "planner"})
    for phase in PHASES:
        builder.add_node(phase, loop.open_round, metadata={"role": "controller"})
    builder.add_node("propose", loop.propose, metadata={"role": "writer"}, input_schema=ProposeTask)
    builder.add_node("schedule", loop.schedule, metadata={"role": "controller"})
    builder.add_node("evaluate", loop.evaluate, metadata={"role": "harness"}, input_schema=EvaluateTask)
    builder.add_node("profile", loop.profile, metadata={"role": "harness"})
    builder.add_node("diagnose", loop.diagnose, metadata={"role": "controller"})
    builder.add_node("feedback", loop.feedback, metadata={"role": "controller"})
    builder.add_node("record", loop.record, metadata={"role": "controller"})
    builder.add_node("select_seeds", finish.select_seeds, metadata={"role": "controller"})
    builder.add_node("fit_sizes", fitting.fit_sizes, metadata={"role": "harness"})
    builder.add_node("combine", combining.combine, metadata={"role": "harness"})
    builder.add_node("cross_validate", finish.cross_validate, metadata={"role": "harness"})
    builder.add_node("final_check", finish.final_check, metadata={"role": "harness"})
    builder.add_node("report", finish.report, metadata={"role": "controller"})

    builder.add_edge(START, "load_problem")
    builder.add_edge("load_problem", "vet_problem")
    builder.add_edge("vet_problem", "measure_baseline")
    builder.add_edge("measure_baseline", "plan")
    builder.add_conditional_edges("plan", first_phase)
    for phase in PHASES:
        builder.add_conditional_edges(phase, ask_writers, ["propose", "record"])
    builder.add_edge("propose", "schedule")
    builder.add_conditional_edges("schedule", send_to_evaluation, ["evaluate", "record"])
    builder.add_conditional_edges("evaluate", profile_or_not)
    builder.add_edge("profile", "diagnose")
    builder.add_edge("diagnose", "feedback")
    builder.add_edge("feedback", "record")
    builder.add_conditional_edges("record", again_or_on)
    builder.add_conditional_edges("select_seeds", first_phase)
    builder.add_edge("fit_sizes", "combine")
    builder.add_edge("combine", "cross_validate")
    builder.add_conditional_edges("cross_validate", check_or_report)
    builder.add_conditional_edges("final_check", done_or_next_best)
    builder.add_edge("report", END)
    return builder.compile(checkpointer=checkpointer, name="warpsmith")


def recursion_limit(context: Context) -> int:
    """Supersteps that no run within its budget reaches: a round takes eight, and each may evaluate one candidate."""
    context = staged(context)
    rounds = context.budget + 3 * (patience_of(context, 1) + 1)
    return 10 + 9 * rounds + 4 * context.finalists + 20


graph = build_graph()
"""Without a checkpointer: the LangGraph server brings its own."""
