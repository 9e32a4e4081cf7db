"""The planner's own graph: tensors made by few kinds of primitives, with views as index maps.

`leaf` is in memory before the forward pass or made by a PyTorch call; `pointwise` has operands of its own shape or
literals (but the first of a `gather`, which is read wherever the others say); `reduce` keeps its reduced dimensions
with size 1; `matmul` is `(*batch, m, k) @ (*batch, k, n)`; the rest are views of one operand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...state.lowered import Node
from ...state.program import SCANS
from ...state.sizes import Size, product, quotient
from .index_maps import contiguous_strides

Kind = Literal["leaf", "pointwise", "reduce", "matmul", "permute", "reshape", "expand", "slice", "unfold"]
VIEWS = ("permute", "reshape", "expand", "slice", "unfold")

Literals = bool | int | float | str
"""A string is a symbolic size."""


class Uncovered(Exception):
    """The operator has no programs; the text says what of it is not covered."""


@dataclass(frozen=True)
class Axis:
    """A window along one dimension: `size` elements, `dilation` apart, `stride` from window to window."""

    size: int
    stride: int
    padding: int
    dilation: int
    length: Size
    """Of the input."""
    outputs: Size
    behind: int
    """Zeros behind the input that windows may reach, as `padding` before it."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """One value; compared by identity."""

    name: str
    kind: Kind
    shape: tuple[Size, ...]
    dtype: str
    op: str = ""
    args: "tuple[Tensor | Literals, ...]" = ()
    dims: tuple[int, ...] = ()
    """Reduced dimensions, the permutation, or the sliced dimension."""
    start: int = 0
    step: int = 1
    axes: "tuple[Axis, ...]" = ()
    """Of an unfold: its windows along the dimensions after the channels."""
    strides: tuple[Size, ...] = ()
    """Of a leaf."""
    call: "Call | None" = None
    """The PyTorch call that makes a leaf."""
    origin: str = ""
    """The lowered node that it was expanded from."""

    @property
    def operands(self) -> "tuple[Tensor, ...]":
        return tuple(a for a in self.args if isinstance(a, Tensor))

    @property
    def is_scan(self) -> bool:
        return self.op in SCANS

    @property
    def is_view(self) -> bool:
        return self.kind in VIEWS


@dataclass(eq=False)
class Call:
    """An operator left to PyTorch, with the tensors that it reads and makes."""

    node: Node
    reads: dict[str, Tensor]
    made: dict[int, Tensor]


class Graph:
    """Makes tensors, in execution order. No new one gets a name that is `taken`."""

    def __init__(self, taken: frozenset[str] = frozenset(), apart: bool = False) -> None:
        self.apart = apart
        """Whether convolutions are PyTorch's, and attention its own or in parts."""
        self.tensors: list[Tensor] = []
        self.calls: list[Call] = []
        self._counts: dict[str, int] = {}
        self._taken = taken
        self.flips: dict[Tensor, tuple[Tensor, tuple[int, ...]]] = {}
        """What was flipped, along which dimensions, by its result."""
        self.padded: dict[Tensor, tuple[Tensor, dict[int, tuple[int, int]]]] = {}
        """What was padded with zeros, and with how many before and behind each dimension, by its result."""
        self.parts: dict[Tensor, Callable[[int, int, int, Size], Tensor | None]] = {}
        """How a slice (dimension, start, step, length) is computed without the rest, by what it would be cut from."""
        self._made: dict[Any, Tensor] = {}
        """What is computed twice in the reference is one tensor here."""
        self.scope = "t"
        """Prefix of new names: the operator being expanded."""
        self.origin = ""

    def _add(self, kind: Kind, shape: Sequence[Size], dtype: str, **fields: Any) -> Tensor:
        name = fields.pop("name", None)
        key = (kind, tuple(shape), dtype, *((k, _identity(v)) for k, v in sorted(fields.items())))
        if name is None and key in self._made:
            return self._made[key]
        if name is None:
            count = self._counts.get(self.scope, 0)
            while f"{self.scope}_{count}" in self._taken:
                count += 1
            self._counts[self.scope] = count + 1
            name = f"{self.scope}_{count}"
        tensor = Tensor(name=name, kind=kind, shape=tuple(shape), dtype=dtype, origin=self.origin, **fields)
        self.tensors.append(tensor)
        self._made[key] = tensor
        return tensor

    def leaf(self, name: str, shape: Sequence[Size], dtype: str, strides: Sequence[Size] | None = None) -> Tensor:
        """A tensor in memory."""
        laid = contiguous_strides(shape) if strides is None else tuple(strides)
        return self._add("leaf", shape, dtype, name=name, strides=laid)

    def made(self, call: Call, number: int, name: str, shape: Sequence[Size], dtype: str) -> Tensor:
        """Output `number` of a PyTorch call, contiguous."""
        laid = contiguous_strides(shape)
        tensor = self._add("leaf", shape, dtype, name=name, strides=laid, call=call)
        call.made[number] = tensor
        return tensor

    def pointwise(self, op: str, *args: Tensor | Literals, dtype: str, shape: Sequence[Size] | None = None) -> Tensor:
        """One primitive over operands broadcast to their common shape."""
        if shape is None:
            shape = broadcast_shape([a.shape for a in args if isinstance(a, Tensor)])
        fitted = tuple(self.expand(a, shape) if isinstance(a, Tensor) else a for a in args)
        order = _one_order(fitted)
        if order is not None and op != "copy":
            # Computed in the operand's own memory order, like PyTorch does, and permuted after.
            back = [order.index(d) for d in range(len(order))]
            moved = [self.permute(a, back) if isinstance(a, Tensor) else a for a in fitted]
            return self.permute(self.pointwise(op, *moved, dtype=dtype), order)
        return self._add("pointwise", shape, dtype, op=op, args=fitted)

    def iota(self, shape: Sequence[Size], dim: int, dtype: str = "int64") -> Tensor:
        """The index along a dimension."""
        if shape[dim] == 1:
            return self.pointwise("literal", 0, dtype=dtype, shape=shape)
        return self._add("pointwise", shape, dtype, op="iota", dims=(dim,))

    def gather(
        self, source: Tensor, indices: "Sequence[Tensor | int]", shape: Sequence[Size], guard: "Tensor | bool" = True
    ) -> Tensor:
        """The source's element at one index a dimension; anything where the guard is false, indices included.

        Indices and guard have the shape of the result. Where the guard holds, indices must be in bounds.
        """
        return self._add("pointwise", shape, source.dtype, op="gather", args=(source, guard, *indices))

    def scan(self, op: str, x: Tensor, dim: int, dtype: str, backwards: bool = False) -> Tensor:
        """A running total along a dimension."""
        if x.shape[dim] == 1:
            return self.pointwise("cast", x, dtype=dtype)
        return self._add("pointwise", x.shape, dtype, op=op, args=(x, backwards), dims=(dim,))

    def reduce(self, op: str, x: Tensor, dims: Sequence[int], dtype: str) -> Tensor:
        """Reduces dimensions larger than 1, keeping them with size 1; the caller handles those of size 1."""
        shape = [1 if d in dims else size for d, size in enumerate(x.shape)]
        return self._add("reduce", shape, dtype, op=op, args=(x,), dims=tuple(sorted(dims)))

    def matmul(self, a: Tensor, b: Tensor, dtype: str) -> Tensor:
        """`(*batch, m, k) @ (*batch, k, n)`, batch dimensions equal."""
        return self._add("matmul", (*a.shape[:-1], b.shape[-1]), dtype, args=(a, b))

    def permute(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """Dimension i of the result is dimension `order[i]` of x."""
        if x.kind == "permute":
            return self.permute(x.operands[0], [x.dims[d] for d in order])
        if list(order) == list(range(len(x.shape))):
            return x
        return self._add("permute", [x.shape[d] for d in order], x.dtype, args=(x,), dims=tuple(order))

    def reshape(self, x: Tensor, shape: Sequence[Size]) -> Tensor:
        """The same elements in another shape."""
        if tuple(shape) == x.shape:
            return x
        if x.kind == "reshape":
            return self.reshape(x.operands[0], shape)
        if product(shape) != product(x.shape):
            raise Uncovered(f"reshaping {list(x.shape)} to {list(shape)}")
        return self._add("reshape", shape, x.dtype, args=(x,))

    def expand(self, x: Tensor, shape: Sequence[Size]) -> Tensor:
        """Broadcasts x, aligned at the last dimension."""
        missing = len(shape) - len(x.shape)
        x = self.reshape(x, (*[1] * missing, *x.shape)) if missing else x
        if tuple(shape) == x.shape:
            return x
        if any(old not in (1, new) for old, new in zip(x.shape, shape, strict=True)):
            raise Uncovered(f"broadcasting {list(x.shape)} to {list(shape)}")
        return self._add("expand", shape, x.dtype, args=(x,))

    def slice(self, x: Tensor, dim: int, start: int, length: Size, step: int = 1) -> Tensor:
        """Every `step`-th element from `start` along a dimension."""
        if start == 0 and step == 1 and length == x.shape[dim]:
            return x
        shape = [length if d == dim else size for d, size in enumerate(x.shape)]
        return self._add("slice", shape, x.dtype, args=(x,), dims=(dim,), start=start, step=step)

    def unfold(self, x: Tensor, axes: "Sequence[Axis]") -> Tensor:
        """`(*batch, channels, ...)` as `(*batch, channels * taps, places)`: a factor of a product, and no more."""
        batch = len(x.shape) - len(axes) - 1
        rows = product((x.shape[batch], *(axis.size for axis in axes)))
        places = product(axis.outputs for axis in axes)
        return self._add("unfold", (*x.shape[:batch], rows, places), x.dtype, args=(x,), axes=tuple(axes))

    def squeeze(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        """Drops dimensions of size 1."""
        return self.reshape(x, [size for d, size in enumerate(x.shape) if d not in dims])

    def view(self, x: Tensor, shape: Sequence[Size]) -> Tensor:
        """As `reshape`, where one size may be -1."""
        if -1 not in shape:
            return self.reshape(x, shape)
        rest = quotient(product(x.shape), product(s for s in shape if s != -1))
        if rest is None:
            raise Uncovered(f"reshaping {list(x.shape)} to {list(shape)}")
        return self.reshape(x, [rest if s == -1 else s for s in shape])


def _identity(field: Any) -> Any:
    """A key that tells 1 from 1.0 and True, and tensors by identity."""
    if isinstance(field, tuple):
        return tuple(_identity(part) for part in field)
    return field if isinstance(field, Tensor) else (type(field).__name__, repr(field))


def _one_order(args: Sequence[Tensor | Literals]) -> tuple[int, ...] | None:
    """The permutation that all operands share, where those without it are only broadcast."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    orders = {a.dims for a in tensors if a.kind == "permute"}
    fits = all(a.kind in ("permute", "expand") for a in tensors)
    return orders.pop() if len(orders) == 1 and fits else None


def broadcast_shape(shapes: Sequence[Sequence[Size]]) -> tuple[Size, ...]:
    """PyTorch's broadcasting. Raises Uncovered where sizes are not known to agree."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, start=rank - len(shape)):
            if size not in (1, result[i]):
                if result[i] != 1:
                    raise Uncovered(f"broadcasting {result[i]} with {size}")
                result[i] = size
    return tuple(result)
