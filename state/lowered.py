"""A reference lowered to core ATen operators: what the offline planner reads. Plain data, no torch."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field

from .base import Record
from .sizes import Size, computed


class Value(Record):
    """Shape (may be symbolic) and dtype of one tensor in the graph."""

    shape: tuple[Size, ...]
    dtype: str


class Node(Record):
    """One operator call, input, parameter, buffer or constant, in execution order."""

    name: str
    op: str
    """`input`, `parameter`, `buffer`, `constant`, an overload such as `aten.add.Tensor`, or `getitem`, which picks an
    output."""
    args: tuple[Any, ...] = ()
    """Literals, `{"ref": name}` for another node, `{"size": s}` for a symbolic integer, `{"float": "inf"}`,
    `{"dtype": name}`, `{"device": name}`, `{"memory_format": name}`, `{"layout": name}`; nested lists of these."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    output: Value | None = None
    """None where the operator returns several tensors (see `getitem`) or no tensor."""
    output_count: int = 1
    """How many results the operator returns, used or not."""
    target: str = ""
    """For parameters and buffers the qualified name (`linear.weight`); for inputs the forward argument's name."""
    strides: tuple[Size, ...] | None = None
    """Element strides of inputs and parameters, where they are not contiguous."""

    @property
    def is_memory(self) -> bool:
        """Whether it is there before the call: an input, parameter or buffer."""
        return self.op in ("input", "parameter", "buffer")

    @property
    def operator(self) -> str:
        """`add` for `aten.add.Tensor`, `getitem` for itself; empty for memory and constants."""
        if self.is_memory or self.op == "constant":
            return ""
        return self.op.split(".")[1] if "." in self.op else self.op


class Symbol(Record):
    """A free dimension: `name` is the size of dimension `dim` of input number `input`; `hint` its value now.

    One with a `formula` is no input's dimension but computed from symbols before it, such as `(s1 - 1) // 2 + 1`: what
    is no product of sizes has a name of its own.
    """

    name: str
    input: int = -1
    dim: int = -1
    hint: int
    formula: str = ""
    """Python source, in integers."""


def bound(symbols: Sequence[Symbol], size_of: Callable[[int, int], int]) -> dict[str, int]:
    """Every symbol's value, with the inputs' own from `size_of(input, dim)`."""
    found: dict[str, int] = {}
    for symbol in symbols:
        found[symbol.name] = computed(symbol.formula, found) if symbol.formula else size_of(symbol.input, symbol.dim)
    return found


def references(structure: Any) -> list[str]:
    """Names under `ref` anywhere in a structure of a lowered graph or of a plan, in order."""
    if isinstance(structure, (list, tuple)):
        return [name for part in structure for name in references(part)]
    if not isinstance(structure, dict):
        return []
    if isinstance(structure.get("ref"), str):
        return [structure["ref"]]
    return [name for part in structure.values() for name in references(part)]


class LoweredGraph(Record):
    """A reference as a list of operators in execution order."""

    nodes: tuple[Node, ...]
    outputs: Any
    """Structure of the result: `{"ref": name}` at tensors, `{"size": s}` at sizes, literals; tuples and dicts as
    `{"tuple": [...]}` and `{"dict": [[key, value], ...]}`, which JSON keeps apart from lists."""
    symbols: tuple[Symbol, ...] = ()
    mutated: tuple[str, ...] = ()
    """Inputs that the reference changes in place."""
    updates: dict[str, str] = Field(default_factory=dict)
    """Input, parameter or buffer node to the node whose value it holds after the call."""
    unsupported: str = ""
    """Why the reference could not be lowered; then `nodes` is empty."""

    @property
    def hints(self) -> dict[str, int]:
        return {symbol.name: symbol.hint for symbol in self.symbols}
