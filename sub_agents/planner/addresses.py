"""Indices that no affine map gives, as integer statements: sums, quotients and remainders of axes and other indices."""

from collections.abc import Callable, Sequence

from ...state.sizes import Size, product
from .index_maps import Axis, Index, IndexMap, NotAffine, contiguous_strides, groups
from .tensors import Tensor

INDEX = "index"
"""Of what is computed from axes and sizes alone; indices that are data may be int64."""
MOST_REPEATED = 2**30
"""Elements of a repeated view that a 32-bit index still counts."""
Number = str | int
"""The name of a statement, a symbolic size, or a literal."""
Say = Callable[[str, tuple[Number, ...], str, int], str]
"""Adds a statement of an operator over arguments, of a dtype and a level; returns its name."""


class Addresses:
    """Writes each statement once."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._made: dict[tuple[str, Number, Number], str] = {}
        self._known: dict[str, tuple[str, int]] = {}
        """Dtype and level of each integer statement used here."""
        self._given: set[str] = set()
        """Those that a reference's own indices are in: only their guards say that they are inside."""

    def computed(self, name: str, dtype: str, level: int) -> Index:
        """An index that a statement made elsewhere computes."""
        self._known[name] = (dtype, level)
        self._given.add(name)
        return Index(computed=name)

    def always_inside(self, number: Number) -> bool:
        """Whether it is made of places in the space alone, each of which has an element."""
        return number not in self._given

    def level(self, number: Number) -> int:
        """How many reductions must be complete before a number is known."""
        return self._known[number][1] if isinstance(number, str) and number in self._known else 0

    def through(self, view: Tensor, index_map: IndexMap) -> IndexMap:
        """The operand's map, from the map of a slice or a reshape of it."""
        (operand,) = view.operands
        if view.kind == "reshape" and _repeats(operand):
            # The flat index passes all that is in memory, and maybe what the type of indices can hold.
            elements = product(view.shape)
            if not isinstance(elements, int) or elements >= MOST_REPEATED:
                raise NotAffine("a reshape of what is repeated")
        if view.kind == "slice":
            (dim,) = view.dims
            stepped = self.add(view.start, self.multiply(self.number(index_map[dim]), view.step))
            return tuple(_index(stepped) if d == dim else i for d, i in enumerate(index_map))
        return self._reshaped(index_map, view.shape, operand.shape)

    def _reshaped(self, index_map: IndexMap, before: Sequence[Size], after: Sequence[Size]) -> IndexMap:
        result = [Index()] * len(after)
        for old, new in groups(before, after):
            if len(old) == 1 and len(new) == 1:
                result[new[0]] = index_map[old[0]]
                continue
            flat = self.flat([index_map[d] for d in old], contiguous_strides([before[d] for d in old]))
            for place, (dim, stride) in enumerate(zip(new, contiguous_strides([after[d] for d in new]), strict=True)):
                part = self._divided("floor_div", flat, stride)
                result[dim] = _index(part if place == 0 else self._divided("remainder", part, after[dim]))
        return tuple(result)

    def flat(self, index_map: Sequence[Index], strides: Sequence[Size]) -> Number:
        """The element offset of a place in memory with these strides."""
        total: Number = 0
        for index, stride in zip(index_map, strides, strict=True):
            total = self.add(total, self.multiply(self.number(index), stride))
        return total

    def number(self, index: Index) -> Number:
        """An index as one number."""
        if index.computed:
            return index.computed
        total: Number = index.offset
        for axis, coefficient in index.terms:
            total = self.add(total, self.multiply(self._along(axis), coefficient))
        return total

    def _along(self, axis: Axis) -> str:
        key = ("iota", axis, 0)
        if key not in self._made:
            name = self._say("iota", (axis,), INDEX, 0)
            self._made[key] = name
            self._known[name] = (INDEX, 0)
        return self._made[key]

    def add(self, a: Number, b: Number) -> Number:
        """The sum."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return b if a == 0 else a if b == 0 else self._counted("add", a, b)

    def multiply(self, a: Number, b: Number) -> Number:
        """The product."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if 0 in (a, b):
            return 0
        return b if a == 1 else a if b == 1 else self._counted("mul", a, b)

    def _divided(self, op: str, a: Number, b: Number) -> Number:
        """Quotient or remainder of numbers that are not negative where it matters."""
        if b == 1:
            return a if op == "floor_div" else 0
        if isinstance(a, int) and isinstance(b, int):
            return a // b if op == "floor_div" else a % b
        return self._counted(op, a, b)

    def _counted(self, op: str, a: Number, b: Number) -> str:
        key = (op, a, b)
        if key not in self._made:
            wide = any(self._known[x][0] == "int64" for x in (a, b) if x in self._known)
            dtype = "int64" if wide else INDEX
            level = max(self.level(a), self.level(b))
            name = self._say(op, (a, b), dtype, level)
            self._made[key] = name
            self._known[name] = (dtype, level)
            if self._given & {a, b}:
                self._given.add(name)
        return self._made[key]


def _repeats(tensor: Tensor) -> bool:
    while tensor.is_view:
        if tensor.kind == "expand":
            return True
        (tensor,) = tensor.operands
    return False


def _index(number: Number) -> Index:
    return Index(computed=number) if isinstance(number, str) else Index(offset=number)
