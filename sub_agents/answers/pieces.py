"""The pieces of an answer that may be the kernel file: fenced blocks, JSON texts, or code without any fence."""

import re
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...state.syntax import parse
from .blocks import Block, fenced_blocks
from .json_text import objects_in

SHELL = re.compile(r"^\s*(?:[$%!]|pip3? |python3? |nvcc |cd |export |bash )")
CODE_START = re.compile(r"^(?:import |from |class |def |@|#|\"\"\"|''')")
CODE_LINE = re.compile(r"^(?:import |from \S+ import|class |def |@|\s{2,}\S)")
FENCE_LINE = re.compile(r"^\s*(?:`{3,}|~{3,})")
MOST_STARTS, MOST_NESTING = 30, 3


class Piece(NamedTuple):
    """Text that may be code, with what leads to it. `closed` is False for a block that the text ends in."""

    text: str
    lead: str = ""
    info: str = ""
    closed: bool = True


def parses(text: str) -> bool:
    """Whether a text is Python as it stands."""
    try:
        parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def pieces_of(text: str) -> list[Piece]:
    """All pieces in order of appearance; of a text without fences or JSON what of it is code."""
    fenced = list(_fenced(text, MOST_NESTING))
    found = fenced + [Piece(value) for value in _texts_in_json(text)]
    if not any("ModelNew" in piece.text for piece in found):
        found += _bare(text)
    return found


def _fenced(text: str, depth: int) -> Iterator[Piece]:
    for block in fenced_blocks(text, _whole):
        inner = list(_fenced(block.text, depth - 1)) if depth and not parses(block.text) else []
        yield from inner
        if not inner:
            yield _piece(block)


def _whole(text: str) -> bool:
    return parses(_without_shell_lines(text))


def _piece(block: Block) -> Piece:
    text = block.text if parses(block.text) else _without_shell_lines(block.text)
    return Piece(text, block.lead, block.info, block.closed)


def _without_shell_lines(text: str) -> str:
    """Code without the commands that stand before or between it; texts that parse as they are stay."""
    kept = [line for line in text.split("\n") if not SHELL.match(line)]
    shorter = "\n".join(kept)
    return shorter if len(kept) < text.count("\n") + 1 and not parses(text) else text


def _texts_in_json(text: str) -> Iterator[str]:
    """Source texts in JSON objects, as a model gives them that was asked for JSON."""
    if "{" not in text or "\\n" not in text:
        return
    for value in objects_in(text):
        yield from (found for found in _strings(value) if "class " in found)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        nested = [block.text for block in fenced_blocks(value, _whole)]
        yield from nested or [value]
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _bare(text: str) -> list[Piece]:
    """Code that stands in the text without a fence: from the first line on that makes it parse, prose after it cut."""
    lines = [line for line in text.split("\n") if not FENCE_LINE.match(line)]
    starts = [number for number, line in enumerate(lines) if CODE_START.match(line)]
    for start in starts[:MOST_STARTS]:
        code = _up_to_prose(textwrap.dedent("\n".join(lines[start:])))
        if code is not None and "ModelNew" in code:
            return [Piece(code, lines[start - 1].strip() if start else "")]
    return [Piece("\n".join(lines[starts[0] :]))] if starts and "ModelNew" in text else []


def _up_to_prose(code: str) -> str | None:
    """The code, less a tail that is plainly prose; None where it does not parse otherwise."""
    try:
        parse(code)
    except SyntaxError as error:
        lines = code.split("\n")
        cut = (error.lineno or 0) - 1
        tail = lines[cut:]
        if cut <= 0 or lines[cut][:1].isspace() or any(CODE_LINE.match(line) for line in tail):
            return None
        shorter = "\n".join(lines[:cut])
        return shorter if parses(shorter) else None
    except ValueError:
        return None
    return code
