"""Which function expands which aten operator into primitives."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...state.dtypes import BYTES
from .tensors import Graph, Literals, Tensor, Uncovered

Expansion = Callable[["Operator"], "Tensor | tuple[Tensor, ...]"]
EXPANSIONS: dict[str, Expansion] = {}
"""By operator name without namespace and overload; `name.overload` comes first where both exist."""


@dataclass
class Operator:
    """One call to expand: arguments are tensors, literals, dtype names or lists of them."""

    name: str
    graph: Graph
    args: list[Any]
    kwargs: dict[str, Any]
    shape: tuple[int | str, ...]
    dtype: str
    """Of the output; for operators with several outputs those of the first."""

    def arg(self, position: int, name: str, default: Any = None) -> Any:
        """A named argument, given by position or by keyword."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    def dimension(self, position: int, name: str, of: Tensor) -> int:
        """A required dimension of a tensor, from 0 on."""
        if not of.shape:
            raise Uncovered(f"{self.name} of a tensor without dimensions")
        return int(self.arg(position, name)) % len(of.shape)

    def tensor(self, position: int, name: str = "self") -> Tensor:
        """A required tensor argument; a literal becomes a tensor without dimensions."""
        found = self.arg(position, name)
        if isinstance(found, Tensor):
            return found
        if isinstance(found, (bool, int, float, str)):
            return literal(self.graph, found, self.dtype)
        raise Uncovered(f"{self.name} without a tensor {name}")


def expands(*names: str) -> Callable[[Expansion], Expansion]:
    """Registers an expansion for operators by name."""

    def register(function: Expansion) -> Expansion:
        for name in names:
            EXPANSIONS[name] = function
        return function

    return register


def literal(graph: Graph, value: Literals, dtype: str, shape: tuple[int | str, ...] = ()) -> Tensor:
    """A tensor filled with one value."""
    return graph.pointwise("literal", value, dtype=dtype, shape=shape)


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
DTYPES = (*FLOATS, *INTEGERS, "bool")
BITS = {dtype: 8 * BYTES[dtype] for dtype in DTYPES}


def compute_dtype(dtype: str) -> str:
    """The type that arithmetic on this type is done in: float32 for halves, float32 for integers made floats."""
    return "float64" if dtype == "float64" else "float32"


def cast(graph: Graph, x: Tensor | Literals, dtype: str) -> Tensor | Literals:
    """x as a dtype; literals are converted at once."""
    if isinstance(x, Tensor):
        return x if x.dtype == dtype else graph.pointwise("cast", x, dtype=dtype)
    if isinstance(x, str):
        return cast(graph, literal(graph, x, "int64"), dtype)
    if dtype == "bool":
        return bool(x)
    return float(x) if is_float(dtype) else int(x)


def as_operand(graph: Graph, x: Tensor | Literals, dtype: str) -> Tensor | Literals:
    """x in the category of `dtype`: a cast from integers to floats, or between widths that matter; halves stay."""
    if not isinstance(x, Tensor):
        if isinstance(x, str):
            return cast(graph, x, dtype)
        return float(x) if is_float(dtype) else x
    if is_float(dtype) and is_float(x.dtype) and "float64" not in (dtype, x.dtype):
        return x
    return cast(graph, x, compute_dtype(dtype) if is_float(dtype) else dtype)


def common_dtype(operands: list[Tensor | Literals]) -> str:
    """The type that PyTorch compares operands in (categories exact, widths widened)."""
    tensors = [x.dtype for x in operands if isinstance(x, Tensor)]
    ranked = [d for d in tensors if is_float(d)]
    if ranked:
        return "float64" if "float64" in ranked else "float32" if len(set(ranked)) > 1 else ranked[0]
    if any(isinstance(x, float) for x in operands):
        return "float32"
    integers = [d for d in tensors if d in INTEGERS]
    if {"uint8", "int8"} == set(integers):
        return "int16"
    if integers:
        return max(integers, key=lambda d: (BITS[d], d != "uint8"))
    return "int64" if any(type(x) is int or isinstance(x, str) for x in operands) else "bool"
