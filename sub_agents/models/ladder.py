"""Asking a model for an answer of a given shape, by the best way that its endpoint supports.

The ladder, best rung first: a JSON schema that the server enforces, a tool call, JSON mode, and plain text with a
fenced block. A rung that was refused is left for good, one whose answer did not fit for this ask; the first that gives
a fitting answer is remembered, and from then on an answer that does not fit is the model's fault. One ask takes at
most one request a rung.
"""

import json
import threading
from collections.abc import Sequence
from typing import Any

from ..answers.characters import cleaned
from ..answers.json_text import fitting, read_object
from ..answers.thinking import without_thinking
from .endpoint import Endpoint, Refused, Request, Spending
from .protocol import Answer, Ask, EndpointFault, Finish, Message, ModelError, Rung
from .wire import RawCall, Reply, checked_calls, prompt_count, text_count, tool_form, written_calls

RUNGS: tuple[Rung, ...] = ("json_schema", "tool_call", "json_mode", "text")
ANSWER_TOOL = "give_answer"
TOOL_PARAMETERS = ("tools", "tool_choice")
FINISHES: dict[str, Finish] = {"length": "truncated", "content_filter": "refused"}
MOST_REFUSAL = 200


class LadderModel:
    """A chat model over one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.proven: Rung | None = None
        """The rung that has given a fitting answer."""
        self.takes_tools = True
        self._refused: set[Rung] = set()
        self._lock = threading.Lock()

    def ask(self, ask: Ask) -> Answer:
        """As `ChatModel.ask`. An error carries the usage up to it."""
        spending = Spending()
        try:
            return self._ask(ask, spending)
        except ModelError as error:
            error.usage = spending.usage
            raise

    def ask_at(self, ask: Ask, rung: Rung | None) -> Answer:
        """Asks on one rung only, tools as the ask has them. Raises Refused where the endpoint does not take it."""
        spending = Spending()
        request = self._request(ask, rung, with_tools=bool(ask.tools))
        return self._finished(self.endpoint.send(request, spending), ask, rung, spending)

    def _ask(self, ask: Ask, spending: Spending) -> Answer:
        if ask.answer_schema is None:
            return self._finished(self._send(ask, None, spending), ask, None, spending)
        answer: Answer | None = None
        for rung in self._rungs():
            try:
                reply = self._send(ask, rung, spending)
            except Refused as refusal:
                self._refused.add(rung)
                if rung == RUNGS[-1]:
                    raise EndpointFault(f"{self.endpoint.model} at {self.endpoint.address}: {refusal}") from refusal
                continue
            answer = self._finished(reply, ask, rung, spending)
            if answer.parsed is not None:
                self._remember(rung)
            if answer.parsed is not None or answer.finish != "stop":
                return answer
        assert answer is not None  # The last rung either answers or raises.
        return answer

    def _rungs(self) -> tuple[Rung, ...]:
        """Those worth trying now."""
        with self._lock:
            return (self.proven,) if self.proven else tuple(r for r in RUNGS if r not in self._refused) or RUNGS[-1:]

    def _remember(self, rung: Rung) -> None:
        with self._lock:
            if self.proven is not None:
                return
            self.proven = rung
        endpoint = self.endpoint
        endpoint.tell("model_rung", model=endpoint.model, endpoint=endpoint.address, rung=rung)

    def _send(self, ask: Ask, rung: Rung | None, spending: Spending) -> Reply:
        """One request; a second one without tools where the endpoint turns out to take none."""
        while True:
            with_tools = self.takes_tools and bool(ask.tools)
            try:
                return self.endpoint.send(self._request(ask, rung, with_tools), spending)
            except Refused as refusal:
                # Where a shape was asked for too, and nothing says which of the two was refused, the shape goes first.
                named = refusal.failure.parameter.partition("[")[0].partition(".")[0] in TOOL_PARAMETERS
                if not with_tools or not (named or rung in (None, RUNGS[-1])):
                    raise
                self.takes_tools = False
                self.endpoint.tell("model_without_tools", model=self.endpoint.model, why=str(refusal))

    def _request(self, ask: Ask, rung: Rung | None, with_tools: bool) -> Request:
        tools = [tool_form(tool.name, tool.about, tool.arguments) for tool in ask.tools] if with_tools else []
        form: dict[str, Any] | None = None
        choice: str | None = None
        messages = ask.messages
        if ask.answer_schema is not None and rung is not None:
            schema = ask.answer_schema.model_json_schema()
            if rung == "json_schema":
                form = {"type": "json_schema", "json_schema": {"name": ANSWER_TOOL, "schema": schema}}
            elif rung == "tool_call":
                choice = "auto" if tools else "required"
                tools.append(tool_form(ANSWER_TOOL, "Give the answer. Call this once, at the end.", ask.answer_schema))
            else:
                messages = _with_instruction(messages, schema, fenced=rung == "text")
                form = {"type": "json_object"} if rung == "json_mode" else None
        return Request(
            messages=messages,
            prompt_count=prompt_count(ask),
            text_count=text_count(ask),
            output_tokens=ask.max_output_tokens,
            temperature=ask.temperature,
            response_format=form,
            tools=tuple(tools),
            tool_choice=choice,
        )

    def _finished(self, reply: Reply, ask: Ask, rung: Rung | None, spending: Spending) -> Answer:
        """The answer in a reply. Tool calls and JSON of an answer that was cut are not read."""
        text = cleaned(without_thinking(reply.text))
        facts: dict[str, Any] = {
            "text": text,
            "rung": rung,
            "usage": spending.usage,
            "model": reply.model or self.endpoint.model,
        }
        finish = FINISHES.get(reply.finish, "refused" if reply.refusal else "stop")
        if finish == "truncated":
            fault = f"the answer was cut after {reply.completion_tokens or 'too many'} tokens"
            return Answer(finish=finish, fault=fault if text else f"{fault}, before anything was handed in", **facts)
        if finish == "refused":
            why = " ".join(cleaned(reply.refusal).split())[:MOST_REFUSAL]
            return Answer(finish=finish, fault=f"the model refused{f': {why}' if why else ''}", **facts)
        calls, given = _split(reply.calls or written_calls(text, ask.tools), ask)
        parsed, fault = self._parsed(text, given, ask)
        if calls and parsed is None:
            return Answer(finish="tool_calls", tool_calls=checked_calls(calls, ask.tools), **facts)
        if ask.answer_schema is None and not text.strip():
            fault = "the answer is empty"
        return Answer(finish="stop", parsed=parsed, fault=fault, **facts)

    @staticmethod
    def _parsed(text: str, given: Sequence[RawCall], ask: Ask) -> tuple[dict[str, Any] | None, str]:
        """The answer by the ask's schema, from a call of the answer tool or from the text; else the fault."""
        if ask.answer_schema is None:
            return None, ""
        fault = ""
        for call in given:
            parsed, fault = None, "the arguments are not a JSON object"
            if call.arguments is not None:
                parsed, fault = fitting(call.arguments, ask.answer_schema)
            if parsed is not None:
                return parsed, ""
        parsed, in_text = read_object(text, ask.answer_schema)
        return parsed, "" if parsed is not None else (
            fault or in_text if text.strip() else fault or "the answer is empty"
        )


def _split(calls: tuple[RawCall, ...], ask: Ask) -> tuple[tuple[RawCall, ...], tuple[RawCall, ...]]:
    """Calls of the ask's tools, and calls that are the answer itself."""
    if ask.answer_schema is None:
        return calls, ()
    own = tuple(call for call in calls if call.name == ANSWER_TOOL)
    return tuple(call for call in calls if call.name != ANSWER_TOOL), own


def _with_instruction(messages: tuple[Message, ...], schema: dict[str, Any], fenced: bool) -> tuple[Message, ...]:
    """The messages with the shape of the answer spelt out at the end of the last one that a person would write."""
    where = "in one fenced block marked json" if fenced else "and nothing else"
    told = f"\n\nAnswer with one JSON object {where}, by this JSON schema:\n{json.dumps(schema)}"
    last = messages[-1]
    if last.author == "user":
        return (*messages[:-1], last.model_copy(update={"text": last.text + told}))
    return (*messages, Message(author="user", text=told.strip()))
