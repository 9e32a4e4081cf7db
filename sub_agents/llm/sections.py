"""Sections of a prompt: each has a budget of tokens and is cut by rule, never by a model's choice."""

import re
from typing import Literal

from pydantic import Field

from ...state.base import Record
from ...state.wording import counted

BYTES_PER_TOKEN = 3
"""Conservative: real tokenisers take more bytes of code a token."""


class Section(Record):
    """A titled part of a prompt."""

    title: str
    text: str
    tokens: int = Field(ge=1)
    """What it may take at most."""
    keep: Literal["head", "ends"] = "head"
    """What survives a cut: the beginning, or beginning and end."""

    @property
    def shown(self) -> str:
        """The text within its budget."""
        return trimmed(self.text.strip("\n"), self.tokens, self.keep)


def tokens_of(text: str) -> int:
    """A count that no common tokeniser exceeds on code and English."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def trimmed(text: str, tokens: int, keep: Literal["head", "ends"] = "head") -> str:
    """Whole lines up to the budget, with one line that says how many were left out."""
    if tokens_of(text) <= tokens:
        return text
    lines = [_short(line, tokens) for line in text.splitlines()]
    room = max(1, tokens - 16)
    tail = _fitting(lines[::-1], room // 3)[::-1] if keep == "ends" else []
    head = _fitting(lines[: len(lines) - len(tail)], room - sum(tokens_of(f"{line}\n") for line in tail))
    left_out = len(lines) - len(head) - len(tail)
    return "\n".join([*head, f"[... {counted(left_out, 'line')} left out ...]", *tail])


def _fitting(lines: list[str], tokens: int) -> list[str]:
    taken, used = [], 0
    for line in lines:
        used += tokens_of(f"{line}\n")
        if used > tokens:
            break
        taken.append(line)
    return taken


def _short(line: str, tokens: int) -> str:
    most = max(40, tokens * BYTES_PER_TOKEN // 2)
    return line if len(line) <= most else line[:most] + " [...]"


def fenced(text: str, kind: str = "") -> str:
    """Text as a block that nothing in it can end: the fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    body = text.strip("\n")
    return f"{fence}{kind}\n{body}\n{fence}"
