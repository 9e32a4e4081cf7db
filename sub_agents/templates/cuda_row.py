"""What the row kernels share: rows are the kept axes, columns the reduced ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram
from ...state.sizes import Size, factors, product, value
from ..slots import Setting
from .cuda_access import LOADS, STORES, address, fetch_text, output_lines, put_text, vector_of
from .cuda_choices import number, text
from .cuda_expression import read
from .cuda_names import identifier
from .cuda_partial import accumulate, results
from .cuda_passes import Flow, Pass
from .cuda_render import index_type, parameters, width_lines
from .cuda_space import Access, Space, Walk, space_of, walk
from .cuda_types import STORAGE, size_text

ROWS, COLUMNS = "rows", "columns"
BYTES_IN_FLIGHT = 40e3
"""What a processor must have asked for at any time to keep memory busy: bandwidth a processor times latency."""


def row_flow(program: LoopProgram, fast_math: bool, merging: bool) -> Flow:
    """The program as passes over its reduced axes."""
    axes = range(len(program.space))
    groups = {ROWS: [a for a in axes if not program.reduced[a]], COLUMNS: [a for a in axes if program.reduced[a]]}
    return Flow(program, space_of(program, groups), (COLUMNS,), fast_math, merging)


def streamed(load: Access) -> bool:
    """Whether every point has an element of its own, or nearly: not a row that all rows share, nor one value a run."""
    return 0 not in load.strides[COLUMNS] and bool(load.strides[COLUMNS]) and not shared(load)


def shared(load: Access) -> bool:
    """Whether all rows read the same elements."""
    return bool(load.strides[ROWS]) and load.constant(ROWS)


def extents(program: LoopProgram, hints: dict[str, int]) -> tuple[int, int]:
    """Number of rows and of columns."""
    flags = list(zip(program.space, program.reduced, strict=True))
    rows = value(product(size for size, reduced in flags if not reduced), hints)
    return rows, value(product(size for size, reduced in flags if reduced), hints)


def columns_contiguous(program: LoopProgram) -> bool:
    """Whether the largest streamed operand runs along the last reduced axis with stride 1 (or nothing does)."""
    space = row_flow(program, False, False).space
    varying = [load for load in space.loads if not load.constant(COLUMNS)]
    # Operands over more axes are larger, whatever the sizes.
    rank = {load.name: sum(stride != 0 for stride in load.strides) for load in program.loads}
    most = max((rank[load.name] for load in varying), default=0)
    return not varying or any(load.last(COLUMNS) == 1 for load in varying if rank[load.name] == most)


@dataclass(frozen=True)
class RowText:
    """Pieces of kernel text for one row program. Names: `row`, `col` (flat), `j` (element of a vector)."""

    flow: Flow
    setting: Setting

    @property
    def program(self) -> LoopProgram:
        return self.flow.program

    @cached_property
    def rows(self) -> Walk:
        return walk(self.flow.space, ROWS, "row")

    @cached_property
    def columns(self) -> Walk:
        return walk(self.flow.space, COLUMNS, "col")

    @cached_property
    def leads(self) -> tuple[Access, ...]:
        """Accesses whose rows all start the same number of elements after a multiple of the vector's width.

        Empty unless they are everything that is streamed: then vectors of odd rows can start before the row.
        """
        space = self.flow.space
        moved = [load for load in space.loads if streamed(load)] + list(self.flow.point_stores)
        if not moved or len(self.columns.sizes) != 1 or number(self.setting, "vector") == 1:
            return ()
        first = moved[0]
        same = all(a.last(COLUMNS) == 1 and a.strides == first.strides and a.offset == first.offset for a in moved)
        return tuple(moved) if same else ()

    def _dense(self, load: Access) -> bool:
        """Whether rows follow each other in memory without gaps."""
        sizes = (*self.rows.sizes, *self.columns.sizes)
        strides = (*load.strides[ROWS], *load.strides[COLUMNS])
        return all(stride == product(sizes[i + 1 :]) for i, stride in enumerate(strides))

    def shift(self) -> str:
        """The declarations of `shifted` and `shift`: how far the first vector starts before the row."""
        if not self.leads:
            return "constexpr bool shifted = false;\n    constexpr int shift = 0;"
        offset = self._row_offset(self.leads[0]).removeprefix(" + ") or "0"
        # Rows of odd length: whole vectors, the first from before the row's start where that is not aligned.
        return (
            "constexpr bool shifted = SHIFTED;\n"
            f"    const int shift = shifted ? int((unsigned long long)({offset}) % vector) : 0;"
        )

    def width_lines(self) -> list[str]:
        """Python that sets `vec`, and `shifted` where rows may be shifted."""
        accesses, limit = self.flow.space.accesses, number(self.setting, "vector")
        lines = width_lines(accesses, COLUMNS, limit, self.divisors)
        if not self.leads:
            return lines
        starts = dict.fromkeys(f"({identifier(a.value)}.data_ptr() // {BYTES[a.dtype]})" for a in self.leads)
        columns = self.flow.space.total(COLUMNS)
        return [
            *lines,
            f"starts = {' | '.join(starts)}",
            f"across = min({limit}, starts & -starts)",
            f"shifted = int(vec * 4 <= max(4, across) and vec < across and {columns} >= {4 * limit})",
            "vec = across if shifted else vec",
        ]

    @property
    def macros(self) -> tuple[str, ...]:
        """Compile-time constants that `width_lines` sets."""
        return ("vec", "shifted") if self.leads else ("vec",)

    def context(self) -> dict[str, object]:
        """What every row kernel's file needs."""
        return {
            "shift": self.shift(),
            "index_type": index_type(self.program, self.setting),
            "name": identifier(self.program.name),
            "partials": [self.flow.partial(each) for each in self.flow.passes if each.reductions],
            "parameters": parameters(self.program, self.flow.space, self.setting),
            "total_rows": size_text(self.flow.space.total(ROWS)),
            "columns": size_text(self.flow.space.total(COLUMNS)),
            "row_lines": self.row_lines(),
            "column_lines": self.columns.lines,
            "prologue": self.flow.row_statements(0),
            "row_stores": [
                f"{address_of(store, self.rows)} = {self.flow.printer.stored(store.name, store.dtype)};"
                for store in self.flow.row_stores
            ],
        }

    def row_lines(self) -> list[str]:
        """Coordinates of the row, a pointer to each streamed operand's row, and what is loaded once a row."""
        lines = list(self.rows.lines)
        for load in self.flow.space.loads:
            name, place = self.flow.printer.name(load.name), self._row_offset(load)
            if load.name in self.flow.elements:
                lines.append(f"const {STORAGE[load.dtype]}* {name}_row = {load.pointer}{place};")
            else:
                lines.append(f"const auto {name} = {read(load.dtype, f'*({load.pointer}{place})')};")
        for store in self.flow.point_stores:
            target = f"{identifier(store.value)}_row"
            lines.append(f"{STORAGE[store.dtype]}* {target} = {store.pointer}{self._row_offset(store)};")
        for statement in self.program.body:
            if statement.op == "iota" and statement.name not in self.flow.elements:
                position = self.flow.space.places[int(statement.args[0])]
                text = self.rows.names[position[1]] if position[1] >= 0 and position[0] == ROWS else "0"
                lines.append(f"const long long {self.flow.printer.name(statement.name)} = {text};")
        return lines

    def _row_offset(self, access: Access) -> str:
        terms = [self.rows.offset(access, "long long")]
        if access.offset != 0:
            terms.insert(0, size_text(access.offset, "long long"))
        return "".join(f" + {term}" for term in terms if term != "0")

    def policy(self, load: Access) -> str:
        """The load function: operands that all rows share stay in the caches."""
        return LOADS["cached" if not streamed(load) else text(self.setting, "load")]

    def fetch(self, load: Access) -> str:
        """One vector of a streamed operand at `col`."""
        base = f"{self.flow.printer.name(load.name)}_row"
        place = address(load, [self.columns], base)
        whole = fetch_text(load, COLUMNS, place, self.policy(load))
        if not self.leads:
            return whole
        # What lies beside a row in the same tensor may be read: only the last row's end matters.
        beside = " && row + 1 >= total_rows" if self._dense(load) else ""
        when = f"shifted && !whole{beside}" if load in self.leads else "shifted"
        return f"{when} ? load_between<vector>({place}, {size_text(load.last(COLUMNS))}, -col, end - col) : {whole}"

    def position(self, name: str) -> str | None:
        """An `iota` along a reduced axis as text; None for other statements."""
        statement = self.flow.statements.get(name)
        if statement is None or statement.op != "iota":
            return None
        place = self.flow.space.places[int(statement.args[0])][1]
        names = self.columns.names
        return f"(long long)({names[place]}{' + j' if place == len(names) - 1 else ''})"

    def raw(self, load: Access, holder: str) -> str:
        """Element `j` of a held vector in its compute type."""
        return read(load.dtype, f"{holder}.at[j]")

    def results(self, each: Pass, source: str) -> list[str]:
        """Declarations after a pass: its reductions, then the row statements that they make known."""
        lines = results(each.reductions, each.merge, source, self.flow.printer) if each.reductions else []
        return lines + self.flow.row_statements(each.number + 1)

    def accumulation(self, each: Pass, into: str) -> list[str]:
        """Adds element `j` to a partial result; a merged pair is left out."""
        pair = (each.merge.first, each.merge.second) if each.merge else ()
        return self.inside(
            accumulate(reduction, into, "index_t(col + j)", self.flow.printer)
            for reduction in each.reductions
            if reduction.name not in pair
        )

    def inside(self, lines: Iterable[str]) -> list[str]:
        """Statements for element `j`, done only where a shifted vector has it from this row."""
        return [f"if (inside) {line}" for line in lines] if self.leads else list(lines)

    def body(self, lines: list[str]) -> list[str]:
        """Lines for element `j` with what `inside` rests on."""
        test = "const bool inside = !shifted || ((after_start || col + j >= 0) && (before_end || col + j < end));"
        return [test, *lines] if any(line.startswith("if (inside)") for line in lines) else lines

    def outputs(self, each: Pass) -> tuple[list[str], list[str], list[str]]:
        """Declarations, filling of element `j`, and stores of a pass's output vectors at `col`."""
        declarations, filling = output_lines(each.stores, self.flow.printer)
        stores: list[str] = []
        for store in each.stores:
            name = identifier(store.value)
            place = address(store, [self.columns], f"{name}_row")
            lines = put_text(store, COLUMNS, place, f"{name}_out", STORES[text(self.setting, "store")])
            if self.leads:
                lines = [f"if (shifted && !whole) store_between<vector>({place}, {name}_out, -col, end - col);"]
                lines += [f"else {STORES[text(self.setting, 'store')]}<vector>({place}, {name}_out);"]
            stores += lines
        return declarations, filling, stores

    @property
    def divisors(self) -> list[str]:
        """Sizes that a vector's width must divide, as Python text."""
        sizes: Sequence[Size] = self.columns.sizes
        return [str(sizes[-1])] if sizes else []


def address_of(store: Access, rows: Walk) -> str:
    """The element that a row stores once."""
    return f"{store.pointer}[{rows.offset(store, 'long long')}]"


def empty_rows(space: Space) -> str:
    """Python condition under which there are no rows; empty where there always are."""
    total = space.total(ROWS)
    return f"{total} == 0" if factors(total)[1] or total == 0 else ""


def looped_ms(program: LoopProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet) -> float:
    """Estimated time when a block of its own walks each row once a pass."""
    rows, columns = extents(program, hints)
    flow = row_flow(program, False, setting.get("passes") == "online")
    moved = 0.0
    for place, each in enumerate(flow.passes):
        names = [n for n in flow.needed(flow.targets(each)) if n in flow.loads]
        own = [flow.loads[n] for n in names if streamed(flow.loads[n])]
        # A lone element drags its whole sector along; neighbours' blocks find some of it in the cache.
        read = sum(BYTES[a.dtype] * (1 if a.last(COLUMNS) in (0, 1) else 4) for a in own)
        # Every resident block's row stays in the L2 cache between passes only if all of them fit.
        resident = min(rows, 4 * device.sm_count) * columns * held_bytes(program) < device.l2_bytes * 0.8
        moved += rows * columns * (read * (0.3 if place and resident else 1.0))
        moved += rows * columns * sum(BYTES[s.dtype] for s in each.stores)
    blocks = rows * int(setting.get("split", 1)) / device.sm_count
    threads = 32 * int(setting["num_warps"])
    waiting = min(blocks, device.max_threads_per_sm / threads) * threads * int(setting["unroll"])
    in_flight = waiting * min(16, int(setting["vector"]) * held_bytes(program))
    busy = min(1.0, rows / device.sm_count, in_flight / BYTES_IN_FLIGHT)
    return 1e3 * moved / (device.copy_bytes_per_s * max(busy, 1e-3)) * 1.02


def held_bytes(program: LoopProgram) -> int:
    """Bytes of one column's streamed operands."""
    space = row_flow(program, False, False).space
    return sum(BYTES[load.dtype] for load in space.loads if streamed(load))


__all__ = [
    "COLUMNS",
    "ROWS",
    "RowText",
    "columns_contiguous",
    "extents",
    "held_bytes",
    "row_flow",
    "shared",
    "streamed",
    "vector_of",
]
