"""JSON out of what a model wrote: bare, in a fence, or in the middle of prose."""

import json
from typing import Any

from pydantic import BaseModel, ValidationError

from .blocks import fenced_blocks
from .characters import cleaned_values
from .thinking import without_thinking

MOST_STARTS = 40
MOST_PROBLEMS = 3
_decoder = json.JSONDecoder(strict=False)


def objects_in(text: str) -> list[dict[str, Any]]:
    """JSON objects of a text, the likeliest first: the whole text, fenced blocks, what begins with a brace."""
    text = without_thinking(text)
    blocks = [block.text for block in reversed(fenced_blocks(text))]
    found = [value for piece in (text, *blocks) if (value := _whole(piece)) is not None]
    return found or _embedded(text)


def fitting(value: Any, schema: type[BaseModel]) -> tuple[dict[str, Any] | None, str]:
    """A value as the schema has it, as JSON-ready dict; or None and what is wrong with it, as one line."""
    try:
        return schema.model_validate(cleaned_values(value)).model_dump(mode="json"), ""
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"{'.'.join(map(str, problem['loc'])) or 'the object'}: {problem['msg']}" for problem in problems]
        more = f"; and {len(lines) - MOST_PROBLEMS} more" if len(lines) > MOST_PROBLEMS else ""
        return None, " ".join("; ".join(lines[:MOST_PROBLEMS]).split()) + more


def read_object(text: str, schema: type[BaseModel]) -> tuple[dict[str, Any] | None, str]:
    """The first object of a text that fits the schema; or None and the fault, as one line."""
    fault = "no JSON object in the answer"
    for number, value in enumerate(objects_in(text)):
        fitted, problem = fitting(value, schema)
        if fitted is not None:
            return fitted, ""
        fault = f"the JSON does not fit: {problem}" if number == 0 else fault
    return None, fault


def _whole(text: str) -> dict[str, Any] | None:
    try:
        value = _decoder.decode(text.strip())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _embedded(text: str) -> list[dict[str, Any]]:
    """Objects that begin somewhere in the text, outermost ones only, the largest first."""
    found: list[tuple[int, dict[str, Any]]] = []
    position = 0
    for _ in range(MOST_STARTS):
        position = text.find("{", position)
        if position < 0:
            break
        try:
            value, end = _decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        found.append((end - position, value))
        position = end
    return [value for _, value in sorted(found, key=lambda item: -item[0])]
