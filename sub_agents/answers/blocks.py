"""Fenced blocks of a text, as CommonMark has them, with the line that leads to each."""

import re
import textwrap
from collections.abc import Callable
from typing import NamedTuple

FENCE = re.compile(r"^([ \t>]*(?:[-*]|\d+[.)])?[ \t]*)(`{3,}|~{3,})[ \t]*([^`\n]*)$")
MOST_CLOSINGS = 40


class Block(NamedTuple):
    """One fenced block. `info` is what follows the opening fence, `lead` the last line of text before it."""

    text: str
    info: str
    lead: str
    closed: bool = True


def fenced_blocks(text: str, whole: Callable[[str], bool] | None = None) -> list[Block]:
    """The blocks in order. A fence inside a block is told from its end by length, or by `whole`.

    `whole` says whether a piece of text is complete as it stands: where the first closing fence leaves a piece that is
    not, but a later one does not, the block ends at the later one (a docstring with a fence in it).
    """
    lines = text.split("\n")
    blocks: list[Block] = []
    lead, number = "", 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        if opening is None:
            lead = lines[number].strip() or lead
            number += 1
            continue
        end = _end(lines, number, opening.group(2), whole)
        body = textwrap.dedent("\n".join(lines[number + 1 : end]))
        blocks.append(Block(body, opening.group(3).strip(), lead, end < len(lines)))
        lead, number = "", end + 1
    return blocks


def _end(lines: list[str], start: int, fence: str, whole: Callable[[str], bool] | None) -> int:
    """Line number of the closing fence; the number of lines where there is none."""
    closings = [
        number
        for number in range(start + 1, len(lines))
        if (match := FENCE.match(lines[number])) and match.group(2).startswith(fence) and not match.group(3).strip()
    ]
    if whole is not None:
        for number in closings[:MOST_CLOSINGS]:
            if whole(textwrap.dedent("\n".join(lines[start + 1 : number]))):
                return number
    return closings[0] if closings else len(lines)
