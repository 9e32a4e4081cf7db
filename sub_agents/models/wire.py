"""Between our records and LangChain's messages."""

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from ..answers.characters import cleaned
from .budget import most_tokens
from .protocol import Ask, Message, ToolCall, ToolSpec

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage


WRITTEN_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


class RawCall(NamedTuple):
    """A tool call before anybody has checked it. `arguments` is None where they are no JSON object."""

    id: str
    name: str
    arguments: dict[str, Any] | None


class Reply(NamedTuple):
    """What an endpoint answered, before it is read."""

    text: str
    calls: tuple[RawCall, ...]
    finish: str
    """As the endpoint says: `stop`, `length`, `content_filter`, `tool_calls`, or empty."""
    refusal: str
    model: str
    prompt_tokens: int | None
    """None where the endpoint does not say."""
    completion_tokens: int | None
    reasoning_tokens: int


def to_langchain(messages: tuple[Message, ...]) -> "list[BaseMessage]":
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    def one(message: Message) -> "BaseMessage":
        if message.author == "assistant":
            calls = [{"id": call.id, "name": call.name, "args": call.arguments} for call in message.tool_calls]
            return AIMessage(content=message.text, tool_calls=calls)
        if message.author == "tool":
            return ToolMessage(content=message.text, tool_call_id=message.answers_call)
        return HumanMessage(message.text) if message.author == "user" else SystemMessage(message.text)

    return [one(message.model_copy(update={"text": cleaned(message.text)})) for message in messages]


def tool_form(name: str, about: str, arguments: type[BaseModel]) -> dict[str, Any]:
    """A tool as the protocol writes it."""
    function = {"name": name, "description": about, "parameters": arguments.model_json_schema()}
    return {"type": "function", "function": function}


def reply_of(message: "AIMessage") -> Reply:
    """Reads a LangChain answer. Null content is empty text."""
    text = message.content if isinstance(message.content, str) else str(message.text)
    metadata, usage = message.response_metadata, message.usage_metadata
    prompt = completion = None
    reasoning = 0
    if usage is not None:
        prompt = usage["input_tokens"] if usage["input_tokens"] > 0 else None
        completion = usage["output_tokens"] if usage["output_tokens"] > 0 else None
        reasoning = usage.get("output_token_details", {}).get("reasoning") or 0
    calls = [RawCall(call["id"] or "", call["name"], call["args"]) for call in message.tool_calls]
    calls += [RawCall(call["id"] or "", call["name"] or "", None) for call in message.invalid_tool_calls]
    return Reply(
        text=text,
        calls=tuple(calls),
        finish=str(metadata.get("finish_reason") or ""),
        refusal=str(message.additional_kwargs.get("refusal") or ""),
        model=str(metadata.get("model_name") or ""),
        prompt_tokens=prompt,
        completion_tokens=completion,
        reasoning_tokens=max(reasoning, 0),
    )


def written_calls(text: str, tools: tuple[ToolSpec, ...]) -> tuple[RawCall, ...]:
    """Tool calls that stand in the text as the model's own template writes them: the server did not read them."""
    names = {tool.name for tool in tools}
    found = []
    for number, written in enumerate(WRITTEN_CALL.findall(text)):
        try:
            value = json.loads(written, strict=False)
        except ValueError:
            continue
        if isinstance(value, dict) and value.get("name") in names:
            arguments = value.get("arguments")
            found.append(
                RawCall(f"written_{number}", value["name"], arguments if isinstance(arguments, dict) else None)
            )
    return tuple(found)


def tidy_calls(response: Any) -> None:
    """Spoils arguments of tool calls that are JSON but no object, in place: LangChain then finds the call invalid.

    As they are, its own check would lose the whole answer.
    """
    for choice in getattr(response, "choices", None) or ():
        for call in getattr(getattr(choice, "message", None), "tool_calls", None) or ():
            function = getattr(call, "function", None)
            if function is None:
                continue
            try:
                value = json.loads(function.arguments)
            except (ValueError, TypeError):
                continue
            if not isinstance(value, dict):
                function.arguments = f"no object: {value}"


def checked_calls(calls: tuple[RawCall, ...], tools: tuple[ToolSpec, ...]) -> tuple[ToolCall, ...]:
    """Tool calls with their arguments as their tool declares them, or with the fault to answer; ids made unique."""
    specs = {tool.name: tool for tool in tools}
    seen: set[str] = set()
    checked = []
    for number, call in enumerate(calls):
        id = call.id if call.id and call.id not in seen else f"call_{number}"
        seen.add(id)
        checked.append(_checked(id, call, specs))
    return tuple(checked)


def _checked(id: str, call: RawCall, specs: dict[str, ToolSpec]) -> ToolCall:
    from ..answers.json_text import fitting

    spec = specs.get(call.name)
    if spec is None:
        known = ", ".join(specs) or "none"
        return ToolCall(id=id, name=call.name or "unnamed", fault=f"no tool {call.name!r}; there are: {known}")
    if call.arguments is None:
        return ToolCall(id=id, name=call.name, fault="the arguments are not a JSON object")
    arguments, fault = fitting(call.arguments, spec.arguments)
    return ToolCall(id=id, name=call.name, arguments=arguments or {}, fault=fault)


def text_count(ask: Ask) -> int:
    """Tokens of an ask's messages, counted from above by `most_tokens`."""
    return sum(most_tokens(message.text) for message in ask.messages)


def prompt_count(ask: Ask) -> int:
    """The same of everything that an ask sends: messages, tool calls, tools and schema."""
    texts = [json.dumps(call.arguments) for message in ask.messages for call in message.tool_calls]
    texts += [json.dumps(tool_form(tool.name, tool.about, tool.arguments)) for tool in ask.tools]
    if ask.answer_schema is not None:
        texts.append(json.dumps(tool_form("", "x" * 500, ask.answer_schema)))  # With the instruction around it.
    return text_count(ask) + sum(map(most_tokens, texts))
