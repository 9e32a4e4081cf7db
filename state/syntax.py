"""Parsing of Python source that is safe in threads."""

import ast
import threading
from typing import Any

# CPython 3.11 counts the depth of a syntax tree per interpreter, not per thread: two threads that parse at once can get
# "SystemError: AST constructor recursion depth mismatch".
_parsing = threading.Lock()
_ATTEMPTS = 3
"""Libraries parse as well, and take no lock: LangGraph reads the source of a graph's nodes when it is built."""


def parse(source: str) -> ast.Module:
    """`ast.parse`, one thread at a time. Raises SyntaxError, or ValueError for null bytes.

    Source that is nested too deeply for the parser is a SyntaxError too.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with _parsing:
                return ast.parse(source)
        except (RecursionError, MemoryError) as error:
            raise SyntaxError(f"nested too deeply: {error}") from None
        except SystemError:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def expression(source: str) -> ast.expr:
    """The one expression that `source` is. Raises SyntaxError, or ValueError for anything else."""
    body = parse(source.strip()).body
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise ValueError("not one expression")
    return body[0].value


def literal(source: str) -> Any:
    """`ast.literal_eval` by way of `parse`. Raises SyntaxError, or ValueError for anything but one literal."""
    return ast.literal_eval(expression(source))
