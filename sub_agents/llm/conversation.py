"""One writer's conversation about one kernel, as a subgraph: draft, call tools, read, compile, repair, hand in.

The controller judges what is handed in; what the model thinks of it decides nothing.
"""

import operator
from typing import Annotated, Any, Literal, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from pydantic import Field

from ...state.base import Record
from ...state.candidate import make_candidate, normalised_hash
from ..models.protocol import Answer, Ask, Message, Role
from . import repairer
from .agent_tools import AgentTools
from .briefing import directive_text, writer_sections
from .desk import Desk
from .nested import run_inside
from .prompts import render
from .repairer import Failure, again, phase_of

TEMPERATURES = {"explore": 0.9, "diversify": 1.0, "rewrite": 0.6, "tune": 0.4, "fit": 0.4}
"""By directive, times the controller's own temperature."""
HOTTEST = 1.5
NOTE_LENGTH = 120


class WriteTask(Record):
    """One kernel to write."""

    tag: str
    """Names the conversation among all of a run: the same in a run that is resumed."""
    angle: int = Field(ge=0)
    """Which of the directive's angles it takes."""
    evaluations: int = Field(default=0, ge=0)
    """Evaluations that its tools may spend besides the one for the kernel that is handed in."""


class HandIn(Record):
    """A kernel for the controller."""

    source: str
    note: str = ""
    parent: str = ""


class WriteInput(TypedDict):
    task: WriteTask


class WriteOutput(TypedDict):
    handed_in: Annotated[list[HandIn], operator.add]


class Writing(WriteInput, WriteOutput, total=False):
    messages: Annotated[list[Message], operator.add]
    answer: Answer | None
    answers: int
    tool_calls: int
    output_tokens: int
    judged: dict[str, str]
    """Kernels that tools judged, by id with source."""
    source: str
    note: str
    repairs: int
    failure: Failure | None


Conversation = CompiledStateGraph[Writing, Desk, WriteInput, WriteOutput]


def open_draft(state: Writing, runtime: Runtime[Desk]) -> dict[str, Any]:
    """The request: contract, tools, brief, and what to write."""
    desk, task = runtime.context, state["task"]
    system = render(
        "writer_system",
        language=desk.language,
        precision=desk.brief.problem.precision,
        tools=[spec.name for spec in _tools(desk, task, {}).specs()] if desk.limits.tool_calls else [],
        tool_calls=desk.limits.tool_calls,
        evaluations=task.evaluations,
    )
    sections = writer_sections(desk.brief, desk.language)
    request = render("brief", sections=sections, directive=directive_text(desk.brief, task.angle))
    return {
        "messages": [Message(author="system", text=system), Message(author="user", text=request)],
        "answers": 0,
        "tool_calls": 0,
        "output_tokens": desk.limits.output_tokens,
        "judged": {},
        "source": "",
        "note": "",
        "repairs": 0,
        "failure": None,
    }


def ask_writer(state: Writing, runtime: Runtime[Desk]) -> dict[str, Any]:
    """One answer from the model of the writer's role; tools are offered while calls are left."""
    desk, task = runtime.context, state["task"]
    calls_left = desk.limits.tool_calls - state["tool_calls"]
    heat = TEMPERATURES[desk.brief.directive] * desk.brief.temperature
    answer = desk.ask(
        Ask(
            role=role_of(desk),
            phase=phase_of(desk),
            messages=tuple(state["messages"]),
            tools=_tools(desk, task, state["judged"]).specs() if calls_left > 0 else (),
            temperature=min(HOTTEST, heat),
            max_output_tokens=state["output_tokens"],
            tag=task.tag,
        )
    )
    read = answer is not None and not answer.tool_calls
    return {"answer": answer, "answers": state["answers"] + read}


def use_tools(state: Writing, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Answers every tool call of the last message, in order."""
    desk, answer = runtime.context, state["answer"]
    assert answer is not None  # Only an answer with tool calls leads here.
    tools = _tools(desk, state["task"], state["judged"])
    messages = [Message(author="assistant", text=answer.text, tool_calls=answer.tool_calls)]
    for number, call in enumerate(answer.tool_calls, state["tool_calls"]):
        over = number >= desk.limits.tool_calls
        text = "error: no tool calls are left; hand in your kernel" if over else tools.use(call, number)
        messages.append(Message(author="tool", text=text, answers_call=call.id))
    return {"messages": messages, "tool_calls": state["tool_calls"] + len(answer.tool_calls), "judged": tools.judged}


def read_draft(state: Writing, runtime: Runtime[Desk]) -> dict[str, Any]:
    """The kernel in the answer, or what to tell the model about its answer."""
    desk, answer = runtime.context, state["answer"]
    if answer is None:
        return {}
    read = desk.read(answer)
    if read.source:
        return {"source": read.source, "note": first_line(answer.text)}
    return again(answer, read.fault, state["output_tokens"], desk)


def compile_draft(state: Writing, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Compiles before an evaluation is spent; a compile error may go to the repairer."""
    desk, task = runtime.context, state["task"]
    candidate = make_candidate(state["source"], desk.language, origin="llm")
    key = (task.tag, "compile", candidate.id)

    def verdict() -> str:
        report = desk.toolbox.compile_kernel(candidate)
        return "" if report.ok else f"status: compile_error\n{report.error}"

    said = desk.journal.tell(key, verdict)
    tag = f"{task.tag}-repair-{state['repairs'] + 1}"
    return {"failure": Failure(source=state["source"], verdict=said, tag=tag) if said else None}


def repair(state: Writing, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Has the repairer correct a file that does not compile; what it cannot repair is handed in as it is."""
    failure = state["failure"]
    assert failure is not None
    made = run_inside(repairer.inner, {"failure": failure}, runtime.context)
    fixed = made["repaired"] or state["source"]
    return {"source": fixed, "repairs": state["repairs"] + 1, "note": f"{state['note']} (repaired)"[-NOTE_LENGTH:]}


def hand_in(state: Writing) -> dict[str, Any]:
    """The kernel, and before it those that tools judged: each of them spent an evaluation."""
    final = normalised_hash(state["source"]) if state["source"] else ""
    drafts = [HandIn(source=s, note="a draft that a tool judged") for id, s in state["judged"].items() if id != final]
    own = [HandIn(source=state["source"], note=state["note"])] if state["source"] else []
    return {"handed_in": drafts + own}


def tools_or_read(state: Writing) -> Literal["use_tools", "read_draft"]:
    return "use_tools" if state["answer"] is not None and state["answer"].tool_calls else "read_draft"


def compile_or_again(state: Writing, runtime: Runtime[Desk]) -> Literal["compile_draft", "ask_writer", "hand_in"]:
    if state["source"]:
        return "compile_draft"
    over = state["answer"] is None or state["answers"] >= runtime.context.limits.answers
    return "hand_in" if over else "ask_writer"


def repair_or_hand_in(state: Writing, runtime: Runtime[Desk]) -> Literal["repair", "hand_in"]:
    left = state["repairs"] < runtime.context.limits.repairs and runtime.context.stopped is None
    return "repair" if state["failure"] is not None and left else "hand_in"


def role_of(desk: Desk) -> Role:
    return "cuda_writer" if desk.language == "cuda" else "triton_writer"


def first_line(text: str) -> str:
    """The idea in a line, for reports: the first line of prose."""
    lines = (line.strip() for line in text.partition("```")[0].splitlines())
    return next((line for line in lines if line), "")[:NOTE_LENGTH]


def _tools(desk: Desk, task: WriteTask, judged: dict[str, str]) -> AgentTools:
    return AgentTools(desk, task.tag, task.evaluations, judged)


def build_conversation(checkpointer: Literal[False] | None = None) -> Conversation:
    """open_draft -> ask_writer -> (use_tools -> ask_writer)* -> read_draft -> compile_draft -> repair* -> hand_in."""
    builder: StateGraph[Writing, Desk, WriteInput, WriteOutput] = StateGraph(
        Writing, input_schema=WriteInput, output_schema=WriteOutput
    )
    builder.add_node("open_draft", open_draft)
    builder.add_node("ask_writer", ask_writer, metadata={"role": "writer"})
    builder.add_node("use_tools", use_tools, metadata={"role": "harness"})
    builder.add_node("read_draft", read_draft)
    builder.add_node("compile_draft", compile_draft, metadata={"role": "harness"})
    builder.add_node("repair", repair, metadata={"role": "repairer"})
    builder.add_node("hand_in", hand_in)
    builder.add_edge(START, "open_draft")
    builder.add_edge("open_draft", "ask_writer")
    builder.add_conditional_edges("ask_writer", tools_or_read)
    builder.add_edge("use_tools", "ask_writer")
    builder.add_conditional_edges("read_draft", compile_or_again)
    builder.add_conditional_edges("compile_draft", repair_or_hand_in)
    builder.add_edge("repair", "compile_draft")
    return builder.compile(checkpointer=checkpointer, name="conversation")


graph = build_conversation()
