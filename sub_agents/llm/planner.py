"""A planner with a model behind it: a typed list of strategies on top of what the offline planner finds."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, ValidationError

from ...state.device import DeviceSheet
from ...state.lowered import LoweredGraph
from ...state.plan import Plan, Strategy
from ...state.problem import Problem
from ...state.timing import Baselines
from ..models.protocol import Answer, Ask, ChatModel, Message, ModelError
from ..planning import Planner
from .briefing import plan_text, problem_sections
from .nested import run_inside
from .prompts import render
from .sections import Section

MOST_ANSWERS = 2
MOST_STRATEGIES = 6
OUTPUT_TOKENS = 2048
TEMPERATURE = 0.3


class StrategyAnswer(BaseModel):
    """One strategy."""

    name: str = Field(description="Two to five words", min_length=1)
    expected_speedup: float = Field(description="Ratio over the fastest baseline; 1 is level", gt=0, le=1000)
    why: str = Field(description="Which bytes, operations or launches it saves, with numbers")


class PlanAnswer(BaseModel):
    """Strategies in the order of expected gain."""

    strategies: list[StrategyAnswer] = Field(description="The greatest expected gain first", min_length=1)


@dataclass(kw_only=True)
class PlanningDesk:
    """What one planning works with."""

    model: ChatModel
    sections: list[Section]
    covered: bool
    stopped: ModelError | None = None


class PlanningInput(TypedDict):
    pass


class PlanningOutput(TypedDict):
    strategies: list[StrategyAnswer]


class Planning(PlanningOutput, total=False):
    messages: Annotated[list[Message], operator.add]
    answer: Answer | None
    answers: int


PlanningGraph = CompiledStateGraph[Planning, PlanningDesk, PlanningInput, PlanningOutput]


def open_planning(state: Planning, runtime: Runtime[PlanningDesk]) -> dict[str, Any]:
    """The request."""
    desk = runtime.context
    messages = [
        Message(author="system", text=render("planner_system")),
        Message(author="user", text=render("plan", sections=desk.sections, covered=desk.covered)),
    ]
    return {"messages": messages, "answers": 0, "strategies": []}


def ask_planner(state: Planning, runtime: Runtime[PlanningDesk]) -> dict[str, Any]:
    """One answer by the schema, from the model of the planner's role."""
    desk = runtime.context
    ask = Ask(
        role="planner",
        phase="plan",
        messages=tuple(state["messages"]),
        answer_schema=PlanAnswer,
        temperature=TEMPERATURE,
        max_output_tokens=OUTPUT_TOKENS * (1 + state["answers"]),
    )
    try:
        return {"answer": desk.model.ask(ask), "answers": state["answers"] + 1}
    except ModelError as error:
        desk.stopped = error
        return {"answer": None}


def read_plan(state: Planning) -> dict[str, Any]:
    """The strategies, or what to tell the model about its answer."""
    answer = state["answer"]
    if answer is None:
        return {}
    fault = answer.fault or "it does not hold the strategies"
    if answer.parsed is not None and answer.finish == "stop":
        try:
            return {"strategies": PlanAnswer.model_validate(answer.parsed).strategies[:MOST_STRATEGIES]}
        except ValidationError as error:
            fault = str(error.errors()[0]["msg"])
    told = f"Your last answer could not be used: {fault}. Answer with the strategies alone, shortly."
    said = answer.text if answer.finish == "stop" else ""
    return {"messages": [Message(author="assistant", text=said or "(none)"), Message(author="user", text=told)]}


def planned_or_again(state: Planning) -> Literal["ask_planner", "__end__"]:
    done = state["strategies"] or state["answer"] is None or state["answers"] >= MOST_ANSWERS
    return "__end__" if done else "ask_planner"


def build_planner(checkpointer: Literal[False] | None = None) -> PlanningGraph:
    """open_planning -> ask_planner -> read_plan, which may ask again."""
    builder: StateGraph[Planning, PlanningDesk, PlanningInput, PlanningOutput] = StateGraph(
        Planning, input_schema=PlanningInput, output_schema=PlanningOutput
    )
    builder.add_node("open_planning", open_planning)
    builder.add_node("ask_planner", ask_planner, metadata={"role": "planner"})
    builder.add_node("read_plan", read_plan)
    builder.add_edge(START, "open_planning")
    builder.add_edge("open_planning", "ask_planner")
    builder.add_edge("ask_planner", "read_plan")
    builder.add_conditional_edges("read_plan", planned_or_again)
    return builder.compile(checkpointer=checkpointer, name="planner")


graph = build_planner()
_INNER = build_planner(False)


class LlmPlanner:
    """Adds a model's strategies to another planner's plan; that plan alone where the model gives none."""

    def __init__(self, model: ChatModel, below: Planner, baselines: Callable[[Problem], Baselines | None]) -> None:
        self._model = model
        self._below = below
        self._baselines = baselines

    def plan(self, problem: Problem, graph: LoweredGraph, device: DeviceSheet) -> Plan:
        """The model's strategies first, then those of the plan below that it did not name."""
        below = self._below.plan(problem, graph, device)
        sections = problem_sections(problem, device, graph, self._baselines(problem))
        sections.append(Section(title="What templates cover", text=plan_text(below), tokens=600))
        desk = PlanningDesk(model=self._model, sections=sections, covered=below.forward is not None)
        found = run_inside(_INNER, {}, desk)["strategies"]
        own = tuple(Strategy(name=s.name, expected_speedup=s.expected_speedup, why=s.why) for s in found)
        if not own:
            return below
        named = {strategy.name for strategy in own}
        rest = tuple(strategy for strategy in below.strategies if strategy.name not in named)
        return below.model_copy(update={"strategies": own + rest})
