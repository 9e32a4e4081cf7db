"""Which tensors share a kernel: regions grown greedily in execution order, each trial proved by writing its program."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import value
from .assembly import loop_program, matmul_program
from .emission import Emission, Emitter
from .index_maps import NotAffine
from .layout import Refused, Solver
from .recomputing import Recomputing, widens
from .strided import base_of, strided
from .tensors import Tensor

THIN = 16
"""Rows or columns of a product up to which reading its factors takes most of the time."""


@dataclass(eq=False)
class Region:
    """Tensors computed by one kernel, in execution order."""

    members: list[Tensor]
    reads: dict[Tensor, None] = field(default_factory=dict)
    solo: bool = False
    """Made for one tensor that its own region cannot store: everything below it is computed again."""
    plain: bool = False
    """Made for one tensor whose gathers load all that they read: computing it there gave no kernel."""

    @property
    def matmuls(self) -> list[Tensor]:
        return [m for m in self.members if m.kind == "matmul"]

    @property
    def moves(self) -> bool:
        return any(m.op == "gather" for m in self.members)

    @property
    def reduces(self) -> bool:
        return any(m.kind == "reduce" or m.is_scan for m in self.members)


def twins(products: Sequence[Tensor], hints: Mapping[str, int]) -> bool:
    """Whether products can share a kernel: two of one left factor, in halves that tensor cores read fast, not thin.

    Products of float32 are faster apart, each with its factors split beforehand.
    """
    if len(products) != 2 or products[0].shape != products[1].shape:
        return False
    try:
        factors = [strided(operand) for product_of in products for operand in product_of.operands]
    except NotAffine:
        return False
    left, right, other, second = factors
    if left != other or any(factor.dtype not in ("float16", "bfloat16") for factor in (left, right, second)):
        return False
    if min(value(size, hints) for size in products[0].shape[-2:]) <= THIN:
        return False
    steps = [s for f in factors for s in (*f.strides, f.offset) if s != 1]
    return all(value(s, hints) % 8 == 0 for s in steps) and all(1 in f.strides[-2:] for f in factors)


class CannotPlace(Exception):
    """Not even a kernel of its own computes the tensor; `origin` is the lowered node that it comes from."""

    def __init__(self, origin: str, reason: str) -> None:
        super().__init__(reason)
        self.origin = origin


class Grower:
    """Assigns every computed tensor to a region."""

    def __init__(self, order: Sequence[Tensor], required: Iterable[Tensor], hints: Mapping[str, int]) -> None:
        self.hints = hints
        self.order = {tensor: i for i, tensor in enumerate(order)}
        self.required = frozenset(required)
        self.home: dict[Tensor, Region] = {}
        self.regions: list[Region] = []
        self.recomputing = Recomputing(order, hints)

    def grow(self) -> list[Region]:
        """All regions, in order of creation."""
        for tensor in self.order:
            if tensor.kind in ("pointwise", "reduce", "matmul"):
                self._place(tensor)
        return self.regions

    def _place(self, tensor: Tensor) -> None:
        candidates = self._candidates(tensor)
        trials = [candidates] if len(candidates) > 1 else []
        trials += [[region] for region in candidates]
        for trial in trials:
            if self._join(trial, tensor):
                return
        try:
            region = self._alone(Region([tensor]))
        except Refused:
            try:
                region = self._alone(Region([tensor], plain=True))
            except Refused as reason:
                raise CannotPlace(tensor.origin, str(reason)) from reason
        self.regions.append(region)
        self.home[tensor] = region

    def _alone(self, region: Region) -> Region:
        """A region of one tensor, with what it reads. Raises Refused."""
        region.reads = self.emission(region, region.members).reads
        return region

    def _candidates(self, tensor: Tensor) -> list[Region]:
        if tensor.kind == "matmul":
            return []
        bases = [base_of(operand) for operand in tensor.operands]
        found = [self.home[base] for base in bases if base in self.home]
        if not found:
            found = [region for region in self.regions if self._sibling(region, tensor)]
        unique = list(dict.fromkeys(found))
        # A product keeps its epilogue, which cannot be shared with what reads at computed places.
        return sorted(unique, key=lambda region: (region.moves, -self.regions.index(region)))

    def _sibling(self, region: Region, tensor: Tensor) -> bool:
        """Reads the same memory over the same space, without depending on it."""
        if region.matmuls or not {base_of(o) for o in tensor.operands} & set(region.reads):
            return False
        if tensor.kind == "reduce":
            (source,) = tensor.operands
            return any(
                m.kind == "reduce" and m.dims == tensor.dims and m.operands[0].shape == source.shape
                for m in region.members
            )
        return not region.reduces and all(m.shape == tensor.shape for m in region.members)

    def _join(self, regions: Sequence[Region], tensor: Tensor) -> bool:
        members = sorted({m for r in regions for m in r.members} | {tensor}, key=self.order.__getitem__)
        merged = Region(members)
        inside = frozenset(members)
        factors = [operand for product_of in merged.matmuls for operand in product_of.operands]
        if len(merged.matmuls) > 1 and not twins(merged.matmuls, self.hints):
            return False
        try:
            emission = self.emission(merged, self._sinks(merged))
        except Refused:
            return False
        if any(self._reaches(read, inside) for read in (*emission.reads, *factors)):
            return False
        merged.reads = emission.reads
        at = min(self.regions.index(r) for r in regions)
        self.regions = [r for r in self.regions if r not in regions]
        self.regions.insert(at, merged)
        for member in members:
            self.home[member] = merged
        return True

    def _sinks(self, region: Region) -> list[Tensor]:
        """Members that nothing inside uses, and those that must be in memory anyway."""
        used = {base_of(operand) for member in region.members for operand in member.operands}
        return [m for m in region.members if m not in used or m in self.required]

    def emission(self, region: Region, sinks: Sequence[Tensor]) -> Emission:
        """As `fresh`, proved to give a whole program. Raises Refused."""
        emission = self.fresh(region, sinks)
        if len(emission.matmuls) != len(region.matmuls):
            raise Refused("the product itself is not used")
        if emission.matmuls and any(s.table for s in emission.body):
            raise Refused("reading at computed places beside a product")
        if emission.matmuls:
            # Whether the epilogue keeps rows and columns together shows only when the record is written.
            self.program(region, self.fresh(region, sinks), "trial")
        return emission

    def fresh(self, region: Region, sinks: Sequence[Tensor]) -> Emission:
        """The region's program for these sinks, before its axes are put in order. Raises Refused."""
        inside = frozenset(region.members)
        again = self.recomputing

        def computed(tensor: Tensor, elsewhere: bool) -> bool:
            if elsewhere:
                carried = tensor in again.carried and not region.plain
                return carried or widens(tensor) or again.from_nothing(tensor)
            if tensor in inside:
                return True
            if region.matmuls and again.moves(tensor):
                # An epilogue reads at no computed places: that has a small kernel of its own.
                return False
            if tensor.kind != "pointwise":
                return False
            return region.solo or widens(tensor) or again.from_nothing(tensor) or again.cheap(tensor)

        layout = Solver(region.members, self.hints).solve()
        return Emitter(layout, computed).emit(sinks)

    def program(self, region: Region, emission: Emission, name: str) -> LoopProgram | MatmulProgram:
        """The finished record. Accesses of the emission are changed: call it on a fresh one."""
        if not region.matmuls:
            return loop_program(emission, name, self.hints)
        return matmul_program(emission, name, strided)

    def _reaches(self, tensor: Tensor, inside: frozenset[Tensor]) -> bool:
        """Whether making this tensor needs any of the others first."""
        seen: set[Tensor] = set()
        waiting = [tensor]
        while waiting:
            current = base_of(waiting.pop())
            if current in inside:
                return True
            if current not in seen:
                seen.add(current)
                waiting += self.needs(current)
        return False

    def needs(self, tensor: Tensor) -> list[Tensor]:
        """What must be in memory before a tensor can be made."""
        if tensor.kind == "leaf":
            return list(tensor.call.reads.values()) if tensor.call else []
        region = self.home.get(tensor)
        return list(tensor.operands) if region is None else self.reads(region)

    def reads(self, region: Region) -> list[Tensor]:
        """What a region's kernel loads, operands of a product included."""
        return [*region.reads, *(operand for product_of in region.matmuls for operand in product_of.operands)]
