"""Affine index maps: which element of a tensor is touched at a point of an iteration space.

A map has one `Index` a dimension: an offset plus axes with coefficients. Views become functions from maps to maps, so
a tensor seen through any chain of them is one load with strides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...state.sizes import Size, product, quotient

Axis = str


@dataclass(frozen=True)
class Index:
    """`offset + sum(coefficient * axis)`, empty where the dimension has one element; or what a statement computes."""

    terms: tuple[tuple[Axis, Size], ...] = ()
    offset: Size = 0
    computed: str = ""
    """Name of an integer statement that is the index, instead of all else."""


IndexMap = tuple[Index, ...]


class NotAffine(Exception):
    """The view has no affine map at this point of the program: the tensor must be copied first."""


class NeedSplit(Exception):
    """An axis must be split in two, the inner one of size `inner`, before the map can be written."""

    def __init__(self, axis: Axis, inner: Size) -> None:
        super().__init__(f"{axis} by {inner}")
        self.axis = axis
        self.inner = inner


MAX_SPLITS = 12
"""Attempts at finding axes fine enough for every reshape."""


class SplitAxes:
    """Makes axes for dimensions, cut where earlier attempts found that they must be."""

    def __init__(self, splits: Mapping[Axis, Size]) -> None:
        self.splits = splits
        self.sizes: dict[Axis, Size] = {}

    def index(self, name: Axis, size: Size) -> Index:
        """An index that runs over the whole dimension; empty for one element."""
        return Index(tuple(self._pieces(name, size, 1))) if size != 1 else Index()

    def _pieces(self, name: Axis, size: Size, step: Size) -> list[tuple[Axis, Size]]:
        inner = self.splits.get(name)
        if inner is None:
            self.sizes[name] = size
            return [(name, step)]
        outer = quotient(size, inner)
        if outer is None:
            raise NotAffine(f"{size} by {inner}")
        return [*self._pieces(f"{name}o", outer, product((inner, step))), *self._pieces(f"{name}i", inner, step)]


def contiguous_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Element strides of a contiguous tensor of this shape."""
    return tuple(product(shape[i + 1 :]) for i in range(len(shape)))


def add(a: Size, b: Size) -> Size:
    """The sum where it is a product again. Raises NotAffine elsewhere."""
    if a == 0 or b == 0:
        return a if b == 0 else b
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    raise NotAffine(f"{a} + {b}")


def strides_over(index_map: IndexMap, strides: Sequence[Size], axes: Sequence[Axis]) -> tuple[tuple[Size, ...], Size]:
    """Strides along the axes, and the offset, of a tensor with these element strides."""
    found: dict[Axis, Size] = dict.fromkeys(axes, 0)
    offset: Size = 0
    for index, stride in zip(index_map, strides, strict=True):
        offset = add(offset, product((index.offset, stride)))
        for axis, coefficient in index.terms:
            found[axis] = add(found[axis], product((coefficient, stride)))
    return tuple(found[axis] for axis in axes), offset


def reshape(index_map: IndexMap, before: Sequence[Size], after: Sequence[Size], sizes: Mapping[Axis, Size]) -> IndexMap:
    """The map of the same elements in another shape. Raises NeedSplit or NotAffine."""
    result: list[Index] = [Index()] * len(after)
    for old, new in groups(before, after):
        if len(old) == 1 and len(new) == 1:
            result[new[0]] = index_map[old[0]]
            continue
        terms: list[tuple[Axis, Size]] = []
        offset: Size = 0
        for dim, stride in zip(old, contiguous_strides([before[d] for d in old]), strict=True):
            offset = add(offset, product((index_map[dim].offset, stride)))
            terms += [(axis, product((coefficient, stride))) for axis, coefficient in index_map[dim].terms]
        shape = [after[d] for d in new]
        for dim, index in zip(new, _shifted(_distributed(terms, shape, sizes), offset, shape, sizes), strict=True):
            result[dim] = index
    return tuple(result)


def groups(before: Sequence[Size], after: Sequence[Size]) -> list[tuple[list[int], list[int]]]:
    """The finest pairing of runs of dimensions with equal element counts; dimensions of size 1 are left out."""
    old = [d for d, size in enumerate(before) if size != 1]
    new = [d for d, size in enumerate(after) if size != 1]
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        first, second = [old[i]], [new[j]]
        i, j = i + 1, j + 1
        while (left := product(before[d] for d in first)) != (right := product(after[d] for d in second)):
            if quotient(right, left) is not None or j >= len(new):
                if i >= len(old):
                    raise NotAffine(f"{list(before)} as {list(after)}")
                first.append(old[i])
                i += 1
            else:
                second.append(new[j])
                j += 1
        groups.append((first, second))
    if i < len(old) or j < len(new):
        raise NotAffine(f"{list(before)} as {list(after)}")
    return groups


def _distributed(terms: Sequence[tuple[Axis, Size]], shape: Sequence[Size], sizes: Mapping[Axis, Size]) -> list[Index]:
    """Places each axis of a flat index in the one dimension that holds it whole."""
    placed: list[list[tuple[Axis, Size]]] = [[] for _ in shape]
    strides = contiguous_strides(shape)
    for axis, coefficient in terms:
        for dim, stride in enumerate(strides):
            steps = quotient(coefficient, stride)
            if steps is not None and quotient(shape[dim], product((steps, sizes[axis]))) is not None:
                placed[dim].append((axis, steps))
                break
        else:
            raise _split(axis, coefficient, strides, sizes[axis])
    return [Index(tuple(found)) for found in placed]


def _shifted(indices: list[Index], offset: Size, shape: Sequence[Size], sizes: Mapping[Axis, Size]) -> list[Index]:
    """Adds a flat offset, where no dimension overflows into the one before."""
    if offset == 0 or len(shape) == 1:
        return [Index(index.terms, add(index.offset, offset)) for index in indices]
    found: list[Index] = []
    for index, size, stride in zip(indices, shape, contiguous_strides(shape), strict=True):
        if not isinstance(offset, int) or not isinstance(stride, int):
            raise NotAffine("a slice of free sizes is reshaped")
        digit, offset = divmod(offset, stride)
        reach: Size = digit
        for axis, coefficient in index.terms:
            if not isinstance(sizes[axis], int) or not isinstance(coefficient, int):
                raise NotAffine("a slice of free sizes is reshaped")
            reach = add(reach, coefficient * (int(sizes[axis]) - 1))
        if not isinstance(size, int) or not isinstance(reach, int) or reach >= size:
            raise NotAffine("a slice straddles dimensions")
        found.append(Index(index.terms, digit))
    return found


def _split(axis: Axis, coefficient: Size, strides: Sequence[Size], size: Size) -> Exception:
    for boundary in strides:
        inner = quotient(boundary, coefficient)
        if inner is not None and inner not in (0, 1) and inner != size and quotient(size, inner) is not None:
            return NeedSplit(axis, inner)
    return NotAffine(f"axis {axis} of {size} elements straddles dimensions")
