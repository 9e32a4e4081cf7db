"""The repairer: a failed file and what the harness said in, a corrected file out. A subgraph: ask, read, ask again."""

import operator
from typing import Annotated, Any, Literal, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ...state.base import Record
from ...state.trajectory import Phase
from ..models.protocol import Answer, Ask, Message
from .briefing import repair_sections
from .desk import Desk
from .prompts import render

TEMPERATURE = 0.3
"""A repair is a small change: low whatever the phase."""


class Failure(Record):
    """A file that failed, and how."""

    source: str
    verdict: str
    tag: str
    """Names the repair among all of a run."""


class RepairInput(TypedDict):
    failure: Failure


class RepairOutput(TypedDict):
    repaired: str


class Repair(RepairInput, RepairOutput, total=False):
    messages: Annotated[list[Message], operator.add]
    answer: Answer | None
    answers: int
    output_tokens: int


Repairer = CompiledStateGraph[Repair, Desk, RepairInput, RepairOutput]


def open_repair(state: Repair, runtime: Runtime[Desk]) -> dict[str, Any]:
    """The request: contract, problem, failed file, verdict."""
    desk, failure = runtime.context, state["failure"]
    sections = repair_sections(desk.brief, failure.source, failure.verdict, desk.language)
    system = render("repairer_system", language=desk.language, precision=desk.brief.problem.precision)
    messages = [
        Message(author="system", text=system),
        Message(author="user", text=render("repair", sections=sections)),
    ]
    return {"messages": messages, "answers": 0, "repaired": "", "output_tokens": desk.limits.output_tokens}


def ask_repairer(state: Repair, runtime: Runtime[Desk]) -> dict[str, Any]:
    """One answer from the model of the repairer's role."""
    desk = runtime.context
    answer = desk.ask(
        Ask(
            role="repairer",
            phase=phase_of(desk),
            messages=tuple(state["messages"]),
            temperature=TEMPERATURE,
            max_output_tokens=state["output_tokens"],
            tag=state["failure"].tag,
        )
    )
    return {"answer": answer, "answers": state["answers"] + 1}


def read_repair(state: Repair, runtime: Runtime[Desk]) -> dict[str, Any]:
    """The corrected file, or what to tell the model about its answer."""
    desk, answer = runtime.context, state["answer"]
    if answer is None:
        return {}
    read = desk.read(answer)
    if read.source:
        return {"repaired": read.source}
    return again(answer, read.fault, state["output_tokens"], desk)


def again(answer: Answer, fault: str, output_tokens: int, desk: Desk) -> dict[str, Any]:
    """The messages that follow an unusable answer. One that was cut is not repeated, and more room is given once."""
    truncated = answer.finish == "truncated"
    said = "" if truncated else answer.text
    messages = [Message(author="assistant", text=said or "(no usable answer)")]
    messages.append(Message(author="user", text=render("again", fault=fault, truncated=truncated)))
    room = 2 * desk.limits.output_tokens if truncated else output_tokens
    return {"messages": messages, "output_tokens": room}


def repaired_or_again(state: Repair, runtime: Runtime[Desk]) -> Literal["ask_repairer", "__end__"]:
    done = state["repaired"] or state["answer"] is None or state["answers"] >= runtime.context.limits.answers
    return "__end__" if done else "ask_repairer"


def phase_of(desk: Desk) -> Phase:
    """The controller's phase, from the directive: usage is counted by it."""
    directive = desk.brief.directive
    return directive if directive in ("rewrite", "tune") else "explore"


def build_repairer(checkpointer: Literal[False] | None = None) -> Repairer:
    """open_repair -> ask_repairer -> read_repair, which may ask again.

    `checkpointer=False` is for use inside a run, whose own checkpoints stay small that way.
    """
    builder: StateGraph[Repair, Desk, RepairInput, RepairOutput] = StateGraph(
        Repair, input_schema=RepairInput, output_schema=RepairOutput
    )
    builder.add_node("open_repair", open_repair)
    builder.add_node("ask_repairer", ask_repairer, metadata={"role": "repairer"})
    builder.add_node("read_repair", read_repair)
    builder.add_edge(START, "open_repair")
    builder.add_edge("open_repair", "ask_repairer")
    builder.add_edge("ask_repairer", "read_repair")
    builder.add_conditional_edges("read_repair", repaired_or_again)
    return builder.compile(checkpointer=checkpointer, name="repairer")


graph = build_repairer()
inner = build_repairer(False)
