"""Iteration spaces as CUDA kernels walk them: axes sorted into groups, merged where every access allows it.

A group is a set of axes with one flat index: all axes of a pointwise kernel, or the rows and the columns of a
reduction. Index arithmetic is printed here; sizes that are symbols are kernel arguments of the same name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...state.program import REDUCTIONS, Load, LoopProgram, Statement, Store
from ...state.sizes import Size, factors, product, value
from .cuda_names import pointer_of
from .cuda_types import size_text

INT_LIMIT = 2**31 - 2**28
"""Offsets below this fit an int with room for the overshoot of the last tiles of a grid that loops."""


@dataclass(frozen=True)
class Access:
    """A load or store with its strides sorted by group."""

    name: str
    """Of the load; of the stored statement or load for a store."""
    value: str
    dtype: str
    strides: Mapping[str, tuple[Size, ...]]
    offset: Size = 0

    @property
    def pointer(self) -> str:
        """The kernel argument."""
        return pointer_of(self.value)

    def constant(self, group: str) -> bool:
        """Whether every point of the group touches the same element."""
        return all(stride == 0 for stride in self.strides[group])

    def last(self, group: str) -> Size:
        """The stride between neighbours of the group; 0 where it has no axis."""
        return self.strides[group][-1] if self.strides[group] else 0


@dataclass(frozen=True)
class Space:
    """Groups of merged axes and the accesses over them."""

    sizes: Mapping[str, tuple[Size, ...]]
    loads: tuple[Access, ...]
    stores: tuple[Access, ...]
    places: Mapping[int, tuple[str, int]]
    """For each axis that an `iota` names: its group and position there; (group, -1) where it has one point."""

    @property
    def accesses(self) -> tuple[Access, ...]:
        return self.loads + self.stores

    def total(self, group: str) -> Size:
        """How many points a group has."""
        return product(self.sizes[group])


@dataclass(frozen=True)
class Walk:
    """A group walked by the flat index `flat` (a C++ name)."""

    group: str
    sizes: tuple[Size, ...]
    flat: str

    @property
    def names(self) -> list[str]:
        """The coordinates' names, one an axis."""
        return split_index(self.sizes, self.flat)[1]

    @property
    def lines(self) -> list[str]:
        """Declarations of the coordinates."""
        return split_index(self.sizes, self.flat)[0]

    def offset(self, access: Access, type_name: str = "index_t") -> str:
        """The access's element offset within the group, `0` if there is none."""
        strides = access.strides[self.group]
        if len(strides) > 1 and all(stride == product(self.sizes[i + 1 :]) for i, stride in enumerate(strides)):
            return self.flat if type_name == "index_t" else f"({type_name}){self.flat}"
        return offset_text(strides, self.names, type_name)


def walk(space: Space, group: str, flat: str) -> Walk:
    """The walk over one of a space's groups."""
    return Walk(group, space.sizes[group], flat)


def split_index(sizes: Sequence[Size], flat: str) -> tuple[list[str], list[str]]:
    """Declarations that split the flat index `flat`, and the coordinates' names, one a size."""
    if len(sizes) < 2:
        return [], [flat] * len(sizes)
    lines, rest = [], flat
    names = [f"{flat}_{i}" for i in range(len(sizes))]
    for i in range(len(sizes) - 1, 0, -1):
        text = size_text(sizes[i])
        size = text if text.isalnum() else f"({text})"
        above = names[0] if i == 1 else f"{flat}_to_{i - 1}"
        lines.append(f"const index_t {names[i]} = {rest} % {size}, {above} = {rest} / {size};")
        rest = above
    return lines, names


def offset_text(strides: Sequence[Size], coordinates: Sequence[str], type_name: str = "index_t") -> str:
    """An element offset; `0` if there is none. With `long long`, products are computed in 64 bits."""
    terms = []
    for stride, coordinate in zip(strides, coordinates, strict=True):
        if stride == 0:
            continue
        wide = coordinate if type_name == "index_t" else f"({type_name}){coordinate}"
        terms.append(coordinate if stride == 1 else f"{wide} * {size_text(stride, type_name)}")
    return " + ".join(terms) or "0"


def space_of(program: LoopProgram, groups: Mapping[str, Iterable[int]]) -> Space:
    """Sorts the program's axes into groups, drops axes of one point and merges neighbours within each group."""
    iotas = {int(s.args[0]) for s in program.body if s.op == "iota"}
    raw = _accesses(program)
    sizes: dict[str, tuple[Size, ...]] = {}
    strides: list[dict[str, tuple[Size, ...]]] = [{} for _ in raw]
    places: dict[int, tuple[str, int]] = {}
    for group, chosen in groups.items():
        axes = [axis for axis in chosen if program.space[axis] != 1]
        merged = _merge(program, axes, raw, iotas)
        sizes[group] = tuple(product(program.space[axis] for axis in run) for run in merged)
        for own, access in zip(strides, raw, strict=True):
            own[group] = tuple(access.strides[run[-1]] for run in merged)
        for axis in iotas.intersection(chosen):
            places[axis] = (group, next((i for i, run in enumerate(merged) if run == [axis]), -1))
    made = tuple(
        Access(a.name, a.value, a.dtype, s, a.offset if isinstance(a, Load) else 0)
        for a, s in zip(raw, strides, strict=True)
    )
    return Space(sizes, made[: len(program.loads)], made[len(program.loads) :], places)


def _merge(program: LoopProgram, axes: list[int], raw: Sequence[Load | Store], iotas: set[int]) -> list[list[int]]:
    """Runs of axes that every access walks with one stride."""
    runs: list[list[int]] = []
    for axis in axes:
        last = runs[-1][-1] if runs else None
        fits = last is not None and not iotas & {last, axis}
        fits = fits and all(
            _same(a.strides[last], a.strides[axis], program.space[axis]) for a in raw if last is not None
        )
        if fits:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def _accesses(program: LoopProgram) -> list[Load | Store]:
    return [*program.loads, *program.stores]


def _same(outer: Size, inner: Size, size: Size) -> bool:
    return outer == product((inner, size))


def symbols_of(program: LoopProgram) -> tuple[str, ...]:
    """Every symbol that the program's sizes, strides, offsets and statements use, sorted."""
    names = {load.name for load in program.loads} | {s.name for s in program.body}
    sizes: list[Size] = list(program.space)
    for access in _accesses(program):
        sizes.extend(access.strides)
    sizes.extend(load.offset for load in program.loads)
    for statement in program.body:
        sizes.extend(arg for arg in statement.args if isinstance(arg, str) and arg not in names)
        sizes.append(statement.extent)
    return tuple(sorted({symbol for size in sizes for symbol in factors(size)[1]}))


def reads_of(program: LoopProgram) -> tuple[str, ...]:
    """Values that the program loads, in order of first use."""
    return program.reads


def dtypes_of(program: LoopProgram) -> dict[str, str]:
    """Dtype of every load and statement by name."""
    return {load.name: load.dtype for load in program.loads} | {s.name: s.dtype for s in program.body}


def spans(program: LoopProgram) -> list[list[Size]]:
    """Sums of sizes that bound the element offsets and the point count: their maximum decides the index type."""
    found: list[list[Size]] = [[product(program.space)]]
    for access in _accesses(program):
        pairs = zip(program.space, access.strides, strict=True)
        terms = [product(pair) for pair in pairs if pair[1] != 0]
        terms += [access.offset] if isinstance(access, Load) and access.offset != 0 else []
        if terms and terms not in found:
            found.append(terms)
    return found + [[table.extent] for table in program.tables.values()]


def narrow(program: LoopProgram) -> bool | None:
    """Whether all indices fit an int: True or False for fixed sizes, None where it depends on symbols."""
    if symbols_of(program):
        return None
    return max(sum(value(size, {}) for size in terms) for terms in spans(program)) < INT_LIMIT


def is_reduction(statement: Statement) -> bool:
    return statement.op in REDUCTIONS
