"""One iteration space for several tensors: which axes each of their dimensions runs over.

Starting from the largest tensor, whose dimensions become axes, maps spread along the edges of the graph in both
directions: from a result to its operands and back. A reshape that cuts a dimension splits its axis and starts again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...state.sizes import Size, product, value
from .index_maps import MAX_SPLITS, Axis, Index, IndexMap, NeedSplit, NotAffine, SplitAxes, reshape
from .tensors import Tensor


class Refused(Exception):
    """These tensors cannot share a kernel."""


@dataclass
class Layout:
    """Axes with their sizes, and the map of each tensor that was reached."""

    sizes: dict[Axis, Size] = field(default_factory=dict)
    maps: dict[Tensor, IndexMap] = field(default_factory=dict)
    inner: dict[Tensor, tuple[Index, ...]] = field(default_factory=dict)
    """For each reduction, and each running total, its operand's indices along its dimensions."""

    @property
    def reduced(self) -> frozenset[Axis]:
        return frozenset(axis for indices in self.inner.values() for index in indices for axis, _ in index.terms)


def through_view(view: Tensor, index_map: IndexMap, sizes: Mapping[Axis, Size]) -> IndexMap:
    """The operand's map, from the map of a view of it."""
    (operand,) = view.operands
    if view.kind == "unfold":
        raise NotAffine("windows are factors of products only")
    if view.kind == "permute":
        back = [Index()] * len(index_map)
        for i, dim in enumerate(view.dims):
            back[dim] = index_map[i]
        return tuple(back)
    if view.kind == "expand":
        return tuple(Index() if old == 1 else i for i, old in zip(index_map, operand.shape, strict=True))
    if view.kind == "slice":
        (dim,) = view.dims
        return tuple(_stepped(view, i) if d == dim else i for d, i in enumerate(index_map))
    return reshape(index_map, view.shape, operand.shape, sizes)


def _stepped(view: Tensor, index: Index) -> Index:
    offset = index.offset
    if not isinstance(offset, int):
        raise NotAffine("a slice at a free offset")
    terms = tuple((axis, product((coefficient, view.step))) for axis, coefficient in index.terms)
    return Index(terms, view.start + offset * view.step)


class Solver:
    """Finds the layout of a set of member tensors."""

    def __init__(self, members: Sequence[Tensor], hints: Mapping[str, int]) -> None:
        self.members = members
        self.hints = hints
        self.edges = _edges(members)
        self.anchor = self._largest()
        self.splits: dict[Axis, Size] = {}

    def solve(self) -> Layout:
        """Raises Refused where some member has no place in the space."""
        try:
            return self._solved()
        except Refused:
            # What only a part of is used has more elements than the result, which then says where it is computed.
            if self.anchor is self.members[-1] or any(member.kind != "pointwise" for member in self.members):
                raise
            self.anchor, self.splits = self.members[-1], {}
            return self._solved()

    def _solved(self) -> Layout:
        for _ in range(MAX_SPLITS):
            try:
                return self._attempt()
            except NeedSplit as need:
                self.splits[need.axis] = need.inner
            except NotAffine as reason:
                raise Refused(str(reason)) from reason
        raise Refused("too many splits")

    def _attempt(self) -> Layout:
        self.axes = SplitAxes(self.splits)
        self.layout = Layout(sizes=self.axes.sizes)
        anchor = self.anchor
        self.layout.maps[anchor] = tuple(self.axes.index(f"a{d}", size) for d, size in enumerate(anchor.shape))
        # Backwards first: it never has to guess. Forwards into a broadcast is the last resort.
        while self._spread(self._backward) or self._spread(self._forward) or self._spread(self._broadcast):
            pass
        if any(member not in self.layout.maps for member in self.members):
            raise Refused("nothing connects them")
        for scan in (member for member in self.members if member.is_scan):
            self._note_inner(scan, scan.operands[0])
        return self.layout

    def _largest(self) -> Tensor:
        for member in self.members:
            if member.kind == "matmul":
                return member
        reads = [m.operands[0] for m in self.members if m.kind == "reduce"]
        return max([*reads, *self.members], key=lambda t: value(product(t.shape), self.hints))

    def _spread(self, move: Callable[[Tensor, Tensor], bool]) -> bool:
        return any(move(result, operand) for result, operand in self.edges)

    def _backward(self, result: Tensor, operand: Tensor) -> bool:
        maps = self.layout.maps
        if result not in maps or operand in maps:
            return False
        if result.is_view:
            maps[operand] = through_view(result, maps[result], self.layout.sizes)
        elif result.kind == "reduce":
            maps[operand] = self._into_reduction(result, operand)
            self._note_inner(result, operand)
        else:
            maps[operand] = maps[result]
        return True

    def _forward(self, result: Tensor, operand: Tensor) -> bool:
        maps = self.layout.maps
        if operand not in maps or not self._complete(operand):
            return False
        if result.kind == "reduce" and result not in self.layout.inner:
            self._note_inner(result, operand)
            found = tuple(Index() if d in result.dims else i for d, i in enumerate(maps[operand]))
            maps.setdefault(result, found)
            return True
        if result in maps or result.kind in ("reduce", "slice"):
            return False
        if result.kind == "expand" and result.shape != operand.shape:
            return False
        maps[result] = self._onward(result, operand)
        return True

    def _onward(self, result: Tensor, operand: Tensor) -> IndexMap:
        known = self.layout.maps[operand]
        if result.kind == "permute":
            return tuple(known[d] for d in result.dims)
        if result.kind == "reshape":
            return reshape(known, operand.shape, result.shape, self.layout.sizes)
        return known

    def _broadcast(self, result: Tensor, operand: Tensor) -> bool:
        maps = self.layout.maps
        if result.kind != "expand" or result in maps or operand not in maps or not self._complete(operand):
            return False
        used = {axis for index in maps[operand] for axis, _ in index.terms}
        free = [axis for axis in sorted(self.layout.reduced) if axis not in used]
        indices = []
        for d, (old, new) in enumerate(zip(operand.shape, result.shape, strict=True)):
            if old == new:
                indices.append(maps[operand][d])
                continue
            match = next((axis for axis in free if self.layout.sizes[axis] == new), None)
            if match is None:
                raise Refused("a broadcast makes the space larger")
            free.remove(match)
            indices.append(Index(((match, 1),)))
        maps[result] = tuple(indices)
        return True

    def _into_reduction(self, result: Tensor, operand: Tensor) -> IndexMap:
        known = self.layout.maps[result]
        used = {axis for index in known for axis, _ in index.terms}
        free = [axis for axis in self.layout.sizes if axis not in used]
        indices = list(known)
        for dim in result.dims:
            match = next((axis for axis in free if self.layout.sizes[axis] == operand.shape[dim]), None)
            if match is not None:
                free.remove(match)
                indices[dim] = Index(((match, 1),))
            else:
                indices[dim] = self.axes.index(f"{result.name}_{dim}", operand.shape[dim])
        return tuple(indices)

    def _note_inner(self, result: Tensor, operand: Tensor) -> None:
        self.layout.inner[result] = tuple(self.layout.maps[operand][d] for d in result.dims)

    def _complete(self, tensor: Tensor) -> bool:
        return covers(self.layout.maps[tensor], tensor.shape, self.layout.sizes)


def covers(index_map: IndexMap, shape: Sequence[Size], sizes: Mapping[Axis, Size]) -> bool:
    """Whether the map reaches every element exactly once."""
    return all(
        index.offset == 0 and product(sizes[axis] for axis, _ in index.terms) == size
        for index, size in zip(index_map, shape, strict=True)
    )


def _edges(members: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Pairs (result, operand) among members and the views between them, results first."""
    edges: list[tuple[Tensor, Tensor]] = []
    seen: set[Tensor] = set()
    waiting = list(reversed(members))
    while waiting:
        tensor = waiting.pop(0)
        if tensor in seen or tensor.kind == "matmul":
            continue
        seen.add(tensor)
        for operand in tensor.operands[1:] if tensor.op == "gather" else tensor.operands:
            edges.append((tensor, operand))
            if operand.is_view:
                waiting.append(operand)
    return edges
