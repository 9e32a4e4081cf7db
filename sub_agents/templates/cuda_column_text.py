"""Kernel text for reductions along a strided axis: a thread works on a vector of elements of the contiguous axis."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ...state.program import LoopProgram, Statement
from ...state.sizes import value
from ..slots import Setting
from .cuda_access import LOADS, STORES, address, fetch_text, output_lines, put_text, vector_of
from .cuda_choices import text
from .cuda_expression import read
from .cuda_names import identifier
from .cuda_partial import accumulate, results
from .cuda_passes import Flow, Pass
from .cuda_space import Access, Walk, space_of, walk
from .cuda_tile_merges import between, first_lines, first_targets, second_lines, settling
from .cuda_types import STORAGE, compute_type, size_text

OUTER, REDUCED, INNER = "outer", "reduced", "inner"


def axis_groups(program: LoopProgram) -> dict[str, list[int]] | None:
    """Axes by group: `inner` are the kept axes after the last reduced one, or the kept axis that loads run along."""
    axes = range(len(program.space))
    reduced = [axis for axis in axes if program.reduced[axis]]
    if not reduced:
        return None
    inner = [axis for axis in axes if axis > reduced[-1] and program.space[axis] != 1]
    streamed = [load for load in program.loads if any(load.strides[a] != 0 and program.space[a] != 1 for a in reduced)]
    runs = [a for a in axes if not program.reduced[a] and any(load.strides[a] == 1 for load in streamed)]
    if runs and not (inner and inner[-1] in runs):
        inner = runs[-1:]
    if not inner or not runs:
        return None
    outer = [axis for axis in axes if not program.reduced[axis] and axis not in inner]
    return {OUTER: outer, REDUCED: reduced, INNER: inner}


def sizes_now(program: LoopProgram, hints: dict[str, int]) -> dict[str, int]:
    """Points of each group at the hints."""
    found = {}
    for group, axes in (axis_groups(program) or {}).items():
        found[group] = 1
        for axis in axes:
            found[group] *= value(program.space[axis], hints)
    return found


def column_flow(program: LoopProgram, fast_math: bool, merging: bool) -> Flow:
    """The program as passes over its reduced axes. Raises ValueError where no kept axis is contiguous."""
    groups = axis_groups(program)
    if groups is None:
        raise ValueError(f"{program.name} has no contiguous axis beside the reduced ones")
    return Flow(program, space_of(program, groups), (REDUCED,), fast_math, merging)


@dataclass(frozen=True)
class ColumnText:
    """Pieces of text. Names: `row` (outer), `col` (reduced), `inner` plus `j` (contiguous), `known[j]` (row values)."""

    flow: Flow
    setting: Setting
    keep: bool
    """Whether every streamed operand is held in registers from the start."""

    @cached_property
    def walks(self) -> dict[str, Walk]:
        names = {OUTER: "row", REDUCED: "col", INNER: "inner"}
        return {group: walk(self.flow.space, group, name) for group, name in names.items()}

    @cached_property
    def row_names(self) -> list[str]:
        """Loads, statements and reductions that all columns share, in order."""
        loads = [n for n in self.flow.loads if n not in self.flow.elements]
        return loads + [s.name for s in self.flow.program.body if s.name not in self.flow.elements]

    def known_fields(self) -> list[str]:
        printer = self.flow.printer
        return [f"{compute_type(printer.dtypes[n])} {printer.name(n)}" for n in self.row_names]

    def imports(
        self, statements: Iterable[Statement], more: Iterable[str] = (), without: Iterable[str] = ()
    ) -> list[str]:
        """Declarations of the row values that statements use."""
        printer, wanted = self.flow.printer, set(more)
        for statement in statements:
            if statement.op != "iota":
                wanted |= {arg for arg in statement.args if isinstance(arg, str)}
        return [
            f"const {compute_type(printer.dtypes[n])} {printer.name(n)} = known[j].{printer.name(n)};"
            for n in self.row_names
            if n in wanted and n not in set(without)
        ]

    def exports(self, names: Iterable[str]) -> list[str]:
        return [f"known[j].{self.flow.printer.name(n)} = {self.flow.printer.name(n)};" for n in names]

    def pointer_lines(self) -> list[str]:
        """Coordinates, a pointer to each access's place in its outer and inner axes, and row operands as vectors."""
        lines = [*self.walks[OUTER].lines, *self.walks[INNER].lines]
        for load in self.flow.space.loads:
            name = self.flow.printer.name(load.name)
            lines.append(f"const {STORAGE[load.dtype]}* {name}_row = {load.pointer}{self._place(load)};")
            if load.name not in self.flow.elements:
                lines.append(f"const {vector_of(load)} {name}_at = {fetch_text(load, INNER, f'{name}_row')};")
        for store in self.flow.space.stores:
            target = f"{identifier(store.value)}_row"
            lines.append(f"{STORAGE[store.dtype]}* {target} = {store.pointer}{self._place(store)};")
        return lines

    def _place(self, access: Access) -> str:
        terms = [self.walks[group].offset(access, "long long") for group in (OUTER, INNER)]
        if access.offset != 0:
            terms.insert(0, size_text(access.offset, "long long"))
        return "".join(f" + {term}" for term in terms if term != "0")

    def prologue(self) -> list[str]:
        """What is known before the first pass, for element `j`."""
        printer, lines, made = self.flow.printer, [], []
        for name in self.row_names:
            if name in self.flow.loads:
                kind = compute_type(printer.dtypes[name])
                lines.append(f"const {kind} {printer.name(name)} = {self.held_row(name)};")
                made.append(name)
            elif self.flow.statements[name].op == "iota":
                lines.append(f"const long long {printer.name(name)} = {self._coordinate(name)};")
                made.append(name)
        statements = self.flow.row_statements_at(0)
        made += [s.name for s in statements]
        return [*lines, *(printer.declaration(s) for s in statements), *self.exports(made)]

    def held_row(self, name: str) -> str:
        """Element `j` of a row operand."""
        return read(self.flow.printer.dtypes[name], f"{self.flow.printer.name(name)}_at.at[j]")

    def _coordinate(self, name: str) -> str:
        group, place = self.flow.space.places[int(self.flow.statements[name].args[0])]
        if place < 0:
            return "0"
        names = self.walks[group].names
        return f"(long long)({names[place]}{' + j' if group == INNER and place == len(names) - 1 else ''})"

    def results(self, each: Pass) -> list[str]:
        """What a pass makes known, for element `j`."""
        statements = self.flow.row_statements_at(each.number + 1)
        made = [s.name for s in (*each.reductions, *statements)]
        return [
            *self.imports(statements, without=made),
            *results(each.reductions, each.merge, f"part{each.number}[j]", self.flow.printer),
            *(self.flow.printer.declaration(s) for s in statements),
            *self.exports(made),
        ]

    def streamed(self, names: Iterable[str]) -> list[dict[str, str]]:
        """Loads of vectors at `col`; operands that inner elements share are read where they are used."""
        found = []
        for name in names:
            load = self.flow.loads.get(name)
            if load is None or load.constant(INNER):
                continue
            policy = LOADS["cached" if load.constant(OUTER) else text(self.setting, "load")]
            printed = self.flow.printer.name(name)
            place = address(load, [self.walks[REDUCED]], f"{printed}_row")
            found.append({"name": printed, "vector": vector_of(load), "fetch": fetch_text(load, INNER, place, policy)})
        return found

    def held(self, name: str) -> str | None:
        """The text of a load or `iota` for element `j` at `col`; None for what is computed."""
        load = self.flow.loads.get(name)
        if load is not None:
            printed = self.flow.printer.name(name)
            if load.constant(INNER):
                return read(load.dtype, f"*({address(load, [self.walks[REDUCED]], f'{printed}_row')})")
            return read(load.dtype, f"{printed}_at[u].at[j]")
        return self._coordinate(name) if self.flow.statements[name].op == "iota" else None

    def pass_context(self, each: Pass) -> dict[str, object]:
        """One pass for the kernel's file."""
        flow, merge = self.flow, each.merge
        targets = first_targets(flow, each)
        pair = (merge.first, merge.second) if merge else ()
        into = "here[j]" if merge else f"part{each.number}[j]"
        statements = [flow.statements[n] for n in flow.needed(targets) if n in flow.statements]
        reductions = [s for s in each.reductions if s.name not in pair]
        declarations, filling = output_lines(each.stores, flow.printer)
        body = [
            *self.imports([*statements, *reductions], [s.name for s in each.stores]),
            *flow.declarations(targets, self.held),
            *(accumulate(s, into, "col", flow.printer) for s in reductions),
            *(first_lines(flow, merge, "here[j]") if merge else []),
            *filling,
        ]
        return {
            "number": each.number,
            "reductions": bool(each.reductions),
            "loads": [] if self.keep else self.streamed(flow.needed(flow.targets(each))),
            "outputs": declarations,
            "body": body,
            "stores": [line for s in each.stores for line in self._put(s, [self.walks[REDUCED]])],
            "merge": self._merge_context(each) if merge else None,
            "results": self.results(each) if each.reductions else [],
        }

    def _merge_context(self, each: Pass) -> dict[str, list[str]]:
        flow, merge = self.flow, each.merge
        assert merge is not None
        inner = [flow.statements[n] for n in flow.needed([merge.inner[-1]]) if n in flow.statements]
        local = (merge.first, merge.mean)
        lines = self.imports(inner, without=local) + between(flow, merge, "here[j]")
        again = between(flow, merge, "here[j]") if merge.kind == "moments" else []
        return {
            "body": lines + second_lines(flow, merge, "here[j]", self.held),
            "settling": again + settling(flow, merge, "here[j]"),
        }

    def _put(self, store: Access, walks: list[Walk]) -> list[str]:
        place = address(store, walks, f"{identifier(store.value)}_row")
        policy = STORES[text(self.setting, "store")]
        return put_text(store, INNER, place, f"{identifier(store.value)}_out", policy)

    def row_store_context(self) -> dict[str, list[str]]:
        """What is stored once for each outer and inner element."""
        stores = self.flow.row_stores
        declarations, filling = output_lines(stores, self.flow.printer)
        return {
            "row_outputs": declarations,
            "row_filling": self.imports([], [s.name for s in stores]) + filling if stores else [],
            "row_stores": [line for store in stores for line in self._put(store, [])],
        }


def partial_bytes(flow: Flow) -> int:
    """A bound on the size of the largest pass's struct, a multiple of 8."""
    sizes = [
        8 * (sum(1 + s.op.startswith("reduce_arg") for s in p.reductions) + (p.merge is not None)) for p in flow.passes
    ]
    return max(sizes, default=8)
