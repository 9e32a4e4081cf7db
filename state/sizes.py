"""Sizes that may be symbolic: a product of an integer and symbols, written as `64`, `"s0"` or `"64*s0*s1"`.

Symbols stand for the free dimensions of a problem (those that its workloads may vary). The written form is valid
Python, so generated host code uses it as it is once the symbols are bound.
"""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping

from .syntax import expression

Size = int | str


def factors(size: Size) -> tuple[int, tuple[str, ...]]:
    """Splits a size into its integer coefficient and its sorted symbols."""
    if isinstance(size, int):
        return size, ()
    coefficient, symbols = 1, []
    for part in size.split("*"):
        if part.isdigit():
            coefficient *= int(part)
        elif part.isidentifier():
            symbols.append(part)
        else:
            raise ValueError(f"not a product of integers and symbols: {size!r}")
    return coefficient, tuple(sorted(symbols))


def written(coefficient: int, symbols: Iterable[str]) -> Size:
    """The canonical form of a size; equal sizes are written equally."""
    ordered = sorted(symbols)
    if coefficient == 0 or not ordered:
        return coefficient
    return "*".join([str(coefficient)] * (coefficient != 1) + ordered)


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes, in canonical form; 1 for none."""
    coefficient = 1
    symbols: list[str] = []
    for size in sizes:
        own, names = factors(size)
        coefficient *= own
        symbols.extend(names)
    return written(coefficient, symbols)


def quotient(size: Size, divisor: Size) -> Size | None:
    """`size / divisor` where it is exact for every value of the symbols, else None."""
    coefficient, symbols = factors(size)
    own, names = factors(divisor)
    remaining = list(symbols)
    for name in names:
        if name not in remaining:
            return None
        remaining.remove(name)
    if own == 0 or coefficient % own:
        return None
    return written(coefficient // own, remaining)


def value(size: Size, hints: Mapping[str, int]) -> int:
    """The size as a number, with each symbol taken from `hints`. Raises KeyError for an unknown symbol."""
    coefficient, symbols = factors(size)
    for name in symbols:
        coefficient *= hints[name]
    return coefficient


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def computed(formula: str, known: Mapping[str, int]) -> int:
    """The value of a formula of integers, names, `+ - * // %` and brackets. Raises KeyError, ValueError."""

    def of(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            return known[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -of(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](of(node.left), of(node.right))
        raise ValueError(f"no formula of sizes: {formula!r}")

    return of(expression(formula))
