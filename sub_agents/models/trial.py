"""Trying an endpoint: whether it answers, and what of the protocol it supports. Takes half a dozen short requests."""

from typing import Any

from pydantic import BaseModel

from ...state.base import Record
from .endpoint import Refused
from .ladder import RUNGS, LadderModel
from .protocol import Answer, Ask, EndpointFault, Message, ModelError, Rung, ToolSpec
from .settings import ModelSettings
from .team import Team

OUTPUT_TOKENS = 2048
"""Room for a reasoning model to think about very little."""


class Sum(BaseModel):
    """What is asked for in a given shape."""

    answer: int


class Terms(BaseModel):
    """Arguments of the tool that is offered."""

    a: int
    b: int


class Trial(Record):
    """What one model at one endpoint supports."""

    model: str
    endpoint: str
    served_as: str = ""
    """The name that the endpoint itself gives."""
    fault: str = ""
    """Why it cannot be used at all; the rest is then unknown."""
    first_seconds: float = 0.0
    """Wall time of a very short answer."""
    rungs: dict[Rung, str] = {}
    """For each way to ask for a shape: empty where it works, else what was wrong."""
    tools: str = ""
    """As for the rungs."""
    counts_tokens: bool = False
    takes_temperature: bool = True
    limit_parameter: str = ""
    tokens: int = 0

    @property
    def best_rung(self) -> Rung | None:
        return next((rung for rung in RUNGS if self.rungs.get(rung) == ""), None)


def try_models(settings: ModelSettings) -> tuple[Trial, ...]:
    """A trial of every model that the settings name. Raises InvalidInput where a key is needed and missing."""
    team = Team(settings)
    names = dict.fromkeys((settings.model, *settings.models.values()))
    return tuple(try_model(team.model(name)) for name in names)


def try_model(ladder: LadderModel) -> Trial:
    """A trial of one model."""
    endpoint = ladder.endpoint
    facts: dict[str, Any] = {"model": endpoint.model, "endpoint": endpoint.address}
    try:
        first = ladder.ask(_ask("Answer with the single word: ready"))
        rungs = {rung: _rung_fault(ladder, rung) for rung in RUNGS}
        tools = _tools_fault(ladder)
    except ModelError as error:
        return Trial(fault=str(error), **facts)
    return Trial(
        served_as=first.model,
        first_seconds=first.usage.seconds,
        fault="" if first.finish == "stop" and not first.fault else first.fault or first.finish,
        rungs=rungs,
        tools=tools,
        counts_tokens=bool(endpoint.counts_tokens),
        takes_temperature=endpoint.takes_temperature,
        limit_parameter=endpoint.limit_name,
        tokens=endpoint.ledger.spent_tokens,
        **facts,
    )


def _ask(text: str, shape: type[BaseModel] | None = None, tools: tuple[ToolSpec, ...] = ()) -> Ask:
    return Ask(
        role="planner",
        phase="plan",
        messages=(Message(author="user", text=text),),
        answer_schema=shape,
        tools=tools,
        temperature=0.0,
        max_output_tokens=OUTPUT_TOKENS,
    )


def _rung_fault(ladder: LadderModel, rung: Rung) -> str:
    try:
        answer = ladder.ask_at(_ask("What is 2 + 3?", shape=Sum), rung)
    except (Refused, EndpointFault) as error:
        return str(error)
    return "" if answer.parsed is not None else answer.fault or answer.finish


def _tools_fault(ladder: LadderModel) -> str:
    tool = ToolSpec(name="add", about="Adds two integers.", arguments=Terms)
    try:
        answer = ladder.ask_at(_ask("Call the tool add with a = 2 and b = 3.", tools=(tool,)), None)
    except (Refused, EndpointFault) as error:
        return str(error)
    return "" if any(not call.fault for call in answer.tool_calls) else _no_call(answer)


def _no_call(answer: Answer) -> str:
    faults = [call.fault for call in answer.tool_calls]
    return faults[0] if faults else "it was offered a tool and called none"
