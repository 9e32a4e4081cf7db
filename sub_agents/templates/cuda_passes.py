"""Splits a loop program into passes over the reduced axes and prints each pass's statements.

Pass k computes the reductions of level k; what a row's points store is stored in the first pass that knows it. The
reductions of one pass form a struct `Partial<k>` that threads, warps and blocks merge.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from ...state.program import LoopProgram, Statement
from .cuda_expression import EXPENSIVE, Printer
from .cuda_merges import Merge, find_merges
from .cuda_partial import partial_struct
from .cuda_space import Access, Space, dtypes_of, is_reduction
from .cuda_types import compute_type


@dataclass(frozen=True)
class Pass:
    """One walk over the columns of a row."""

    number: int
    reductions: tuple[Statement, ...]
    stores: tuple[Access, ...]
    """Stores of every point that this pass does."""
    merge: Merge | None = None


def raised_tanh(program: LoopProgram) -> dict[str, str]:
    """Statements of float32 that are tanh(x) + 1, with x."""
    found: dict[str, str] = {}
    inner = {s.name: s.args[0] for s in program.body if s.op == "tanh" and compute_type(s.dtype) == "float"}
    for s in program.body:
        for term, other in (s.args, s.args[::-1]) if s.op == "add" else ():
            x = inner.get(term) if isinstance(term, str) else None
            if isinstance(x, str) and not isinstance(other, str) and other == 1:
                found[s.name] = x
    return found


@dataclass(frozen=True)
class Flow:
    """A loop program with its space, as passes. `rows` and `columns` are names of groups of the space."""

    program: LoopProgram
    space: Space
    column_groups: tuple[str, ...]
    fast_math: bool = False
    merging: bool = False
    """Fold a maximum and the sum of exponentials after it, or a mean and the squared deviations, into one pass."""

    @cached_property
    def printer(self) -> Printer:
        return Printer(
            dtypes_of(self.program),
            self.fast_math,
            shared_divisors=frozenset(s.name for s in self.program.body if s.op == "div" and self._divides_many(s)),
            raised_tanh=raised_tanh(self.program),
        )

    def _divides_many(self, statement: Statement) -> bool:
        return statement.name in self.elements and statement.args[1] not in self.elements

    @cached_property
    def statements(self) -> dict[str, Statement]:
        return {s.name: s for s in self.program.body}

    @cached_property
    def loads(self) -> dict[str, Access]:
        return {load.name: load for load in self.space.loads}

    @cached_property
    def merges(self) -> tuple[Merge, ...]:
        return find_merges(self.program, self.elements) if self.merging else ()

    @cached_property
    def elements(self) -> frozenset[str]:
        """Loads and statements whose value differs along the columns."""
        found = {
            name for name, load in self.loads.items() if not all(load.constant(group) for group in self.column_groups)
        }
        for statement in self.program.body:
            if is_reduction(statement):
                continue
            if statement.op == "iota":
                group, position = self.space.places[int(statement.args[0])]
                varies = group in self.column_groups and position >= 0
            else:
                varies = any(arg in found for arg in statement.args)
            if varies:
                found.add(statement.name)
        return frozenset(found)

    @cached_property
    def levels(self) -> dict[str, int]:
        """The pass in which a load or statement is first known; a reduction's own is the pass that computes it."""
        levels = dict.fromkeys(self.loads, 0)
        second = {merge.second for merge in self.merges}
        for statement in self.program.body:
            level = 0
            for arg in statement.args if statement.op != "iota" else ():
                if not isinstance(arg, str) or arg not in levels:
                    continue
                after = arg in self.statements and is_reduction(self.statements[arg])
                level = max(level, levels[arg] + after)
            if statement.name in second:
                first = next(m.first for m in self.merges if m.second == statement.name)
                level = levels[first]
            levels[statement.name] = level
        return levels

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """In order; empty passes are left out, so numbers may skip."""
        last = max((self.levels[s.name] for s in self.program.body if is_reduction(s)), default=-1)
        found = []
        for number in range(last + 2):
            reductions = tuple(s for s in self.program.body if is_reduction(s) and self.levels[s.name] == number)
            stores = tuple(s for s in self.point_stores if min(self.levels[s.name], last + 1) == number)
            merge = next((m for m in self.merges if self.levels[m.first] == number), None)
            if reductions or stores:
                found.append(Pass(number, reductions, stores, merge))
        return tuple(found)

    @cached_property
    def point_stores(self) -> tuple[Access, ...]:
        """Stores of every point of a row."""
        return tuple(s for s in self.space.stores if not self._once(s))

    @cached_property
    def row_stores(self) -> tuple[Access, ...]:
        """Stores done once a row."""
        return tuple(s for s in self.space.stores if self._once(s))

    def _once(self, store: Access) -> bool:
        return store.name not in self.elements and all(store.constant(group) for group in self.column_groups)

    def needed(self, targets: Iterable[str], known: frozenset[str] = frozenset()) -> list[str]:
        """The column-varying loads and statements that `targets` rest on, in program order, stopping at `known`."""
        wanted: set[str] = set()
        stack = [t for t in targets if isinstance(t, str)]
        while stack:
            name = stack.pop()
            if name in wanted or name not in self.elements:
                continue
            wanted.add(name)
            if name in self.statements and name not in known and self.statements[name].op != "iota":
                stack.extend(a for a in self.statements[name].args if isinstance(a, str))
        order = [*self.loads, *self.statements]
        return [name for name in order if name in wanted]

    def targets(self, each: Pass) -> list[str]:
        """What a pass's reductions and stores need of every point."""
        return [str(a) for s in each.reductions for a in s.args if isinstance(a, str)] + [s.name for s in each.stores]

    @cached_property
    def kept(self) -> frozenset[str]:
        """Statements worth keeping from their pass for a later one: an expensive operator stands behind them."""
        found: set[str] = set()
        for each in self.passes:
            for name in self.needed(self.targets(each), frozenset(found)):
                if name in self.loads or name in found or self.levels[name] >= each.number:
                    continue
                behind = self.needed([name], frozenset(found))
                if any(b in self.statements and self.statements[b].op in EXPENSIVE and b not in found for b in behind):
                    found.add(name)
        # What only feeds other kept statements need not be kept itself.
        used = {
            n for p in self.passes for n in self.needed(self.targets(p), frozenset(found)) if self.levels[n] < p.number
        }
        return frozenset(found & used)

    def declarations(self, targets: Iterable[str], source: Callable[[str], str | None]) -> list[str]:
        """Lines that compute `targets` for one point. `source(name)` is the text of what is held already, or None."""
        targets = list(targets)
        known = frozenset(n for n in self.statements if n in self.elements and source(n) is not None)
        lines = []
        for name in self.needed(targets, known):
            held = source(name)
            if held is None:
                lines.append(self.printer.declaration(self.statements[name]))
                continue
            dtype = self.printer.dtypes[name]
            lines.append(f"const {compute_type(dtype)} {self.printer.name(name)} = {held};")
        return lines

    def row_statements(self, level: int) -> list[str]:
        """Declarations of statements that are the same for a whole row and known from `level` on."""
        return [self.printer.declaration(s) for s in self.row_statements_at(level)]

    def row_statements_at(self, level: int) -> list[Statement]:
        """Those statements, in order; an `iota` is the template's to declare."""
        return [
            s
            for s in self.program.body
            if s.name in self.row_needs
            and not is_reduction(s)
            and s.op != "iota"
            and s.name not in self.elements
            and self.levels[s.name] == level
        ]

    @cached_property
    def row_needs(self) -> frozenset[str]:
        """Row statements that something still uses."""
        wanted: set[str] = set()
        stack = [s.name for s in self.space.stores] + [
            str(a) for s in self.program.body if is_reduction(s) for a in s.args
        ]
        while stack:
            name = stack.pop()
            if name in wanted or name not in self.statements:
                wanted.add(name)
                continue
            wanted.add(name)
            if self.statements[name].op != "iota":
                stack.extend(a for a in self.statements[name].args if isinstance(a, str))
        return frozenset(wanted)

    def partial(self, each: Pass) -> str:
        """The struct of a pass's reductions."""
        return partial_struct(each.number, each.reductions, each.merge, self.printer)
