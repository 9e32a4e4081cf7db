"""Turns a loop program into lines of Triton: indices, masks, loads, statements and stores on a tile.

A tile has rows (the index `row`, shape [ROWS, 1]) and usually columns (`column`, shape [1, COLUMNS]). Each side is a
flattened group of the program's axes; in reductions the columns are the reduced axes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from keyword import kwlist

from ...state.program import REDUCTIONS, SCANS, Load, LoopProgram, Statement, Store
from ...state.sizes import Size, factors, product, value
from .triton_expression import TYPES, Printer, Term, computed, is_float, literal

INT32_LIMIT = 2**31
_RESERVED = frozenset(kwlist) | {
    *("tl", "triton", "torch", "libdevice", "ROWS", "COLUMNS", "TILE", "SPLIT", "WIDE"),
    *(
        "row",
        "column",
        "outer",
        "row_ok",
        "column_ok",
        "chunk",
        "begin",
        "end",
        "part",
        "partial",
        "tile",
        "block",
        "slot",
    ),
    *("fresh", "gap", "decay", "grown", "delta", "weight"),
}


@dataclass(frozen=True)
class Group:
    """Axes of the space that one index runs over, slowest first."""

    index: str
    axes: tuple[int, ...]
    sizes: tuple[Size, ...]

    @property
    def extent(self) -> Size:
        return product(self.sizes)

    def collapsed(self, strides: tuple[Size, ...]) -> Size | None:
        """The one stride that steps through all axes of the group alike, None if there is none."""
        kept = [(s, n) for s, n in zip((strides[a] for a in self.axes), self.sizes, strict=True) if n != 1]
        for (outer, _), (inner, size) in zip(kept, kept[1:], strict=False):
            if product((inner, size)) != outer:
                return None
        return kept[-1][0] if kept else 0


@dataclass(frozen=True)
class Access:
    """How the kernel's streams treat the caches; empty strings leave it to the hardware."""

    load_eviction: str = ""
    load_cache: str = ""
    store_cache: str = ""


def group(program: LoopProgram, index: str, axes: Iterable[int]) -> Group:
    chosen = tuple(axes)
    return Group(index=index, axes=chosen, sizes=tuple(program.space[axis] for axis in chosen))


def outer_axes(program: LoopProgram) -> tuple[int, ...]:
    return tuple(axis for axis, flag in enumerate(program.reduced) if not flag)


def reduced_axes(program: LoopProgram) -> tuple[int, ...]:
    return tuple(axis for axis, flag in enumerate(program.reduced) if flag)


def accesses(program: LoopProgram) -> tuple[Load | Store, ...]:
    """Everything that touches memory."""
    return (*program.loads, *program.stores)


def definitions(program: LoopProgram) -> tuple[Load | Statement, ...]:
    """Everything that defines a name, in order."""
    return (*program.loads, *program.body)


def symbols(program: LoopProgram, values: Mapping[str, tuple[tuple[Size, ...], str]]) -> tuple[str, ...]:
    """The symbols that the program or its outputs' shapes use, sorted."""
    known = {load.name for load in program.loads} | {s.name for s in program.body}
    sizes: list[Size] = list(program.space)
    for access in accesses(program):
        sizes.extend(access.strides)
    sizes.extend(load.offset for load in program.loads)
    for statement in program.body:
        sizes.extend(arg for arg in statement.args if isinstance(arg, str) and arg not in known)
        sizes.append(statement.extent)
    for store in program.stores:
        sizes.extend(values[store.value][0])
    return tuple(sorted({name for size in sizes for name in factors(size)[1]}))


def constant_in_runs(program: LoopProgram) -> tuple[Load, ...]:
    """Loads that change along the reduced axes, but not along the last: a scale for each channel of a group."""
    columns = group(program, "column", reduced_axes(program))
    return tuple(
        load
        for load in program.loads
        if len(columns.axes) > 1
        and columns.collapsed(load.strides) is None
        and load.strides[columns.axes[-1]] == 0
        and any(load.strides[a] != 0 and program.space[a] != 1 for a in columns.axes)
    )


def symbols_of(size: Size) -> tuple[str, ...]:
    return factors(size)[1]


def size_text(size: Size) -> str:
    """A size as an expression that may stand in a product."""
    return str(size) if isinstance(size, int) or "*" not in size else f"({size.replace('*', ' * ')})"


def span(access: Load | Store, program: LoopProgram, axes: Iterable[int], hints: Mapping[str, int]) -> int:
    """The greatest element offset that the access reaches along the given axes."""
    return sum(abs(value(access.strides[a], hints)) * max(0, value(program.space[a], hints) - 1) for a in axes)


@dataclass
class TileCode:
    """Prints the parts of one program for a tile. `columns` is None for a one-dimensional tile."""

    program: LoopProgram
    rows: Group
    columns: Group | None
    printer: Printer
    row_mask: bool = True
    column_mask: bool = True
    outer: Group | None = None
    """Axes that a program has one index of: then `rows` are a contiguous run within it, which keeps loads coalesced."""
    runs: bool = False
    """Whether a tile's columns lie in one run of the last of their axes: at `within` of the run that the scalar `run`
    numbers. What is constant along such runs is then read once for a whole tile."""
    names: dict[str, str] = field(init=False)
    dtypes: dict[str, str] = field(init=False)
    varies: dict[str, tuple[bool, bool]] = field(init=False)
    """For each name whether it varies along rows and along columns."""

    def __post_init__(self) -> None:
        every = definitions(self.program)
        taken = _RESERVED | {name for size in self._sizes() for name in factors(size)[1]}
        taken |= {f"i{axis}" for axis in range(len(self.program.space))}
        self.names = {
            e.name: f"{e.name}_" if e.name in taken or e.name.startswith("device_") else e.name for e in every
        }
        self.dtypes = {e.name: computed(e.dtype) for e in every}
        self.varies = {}
        for load in self.program.loads:
            self.varies[load.name] = self.load_varies(load)
        for statement in self.program.body:
            self.varies[statement.name] = self._statement_varies(statement)

    def _sizes(self) -> list[Size]:
        sizes: list[Size] = list(self.program.space)
        for access in accesses(self.program):
            sizes.extend(access.strides)
        return sizes

    def load_varies(self, load: Load | Store) -> tuple[bool, bool]:
        """Whether an access moves along the tile's rows and along its columns."""
        return tuple(  # type: ignore[return-value]
            side is not None and any(load.strides[a] != 0 and self.program.space[a] != 1 for a in side.axes)
            for side in (self.rows, self.columns)
        )

    def _statement_varies(self, statement: Statement) -> tuple[bool, bool]:
        if statement.op == "iota":
            axis = statement.args[0]
            return axis in self.rows.axes, self.columns is not None and axis in self.columns.axes
        own = [self.varies[arg] for arg in statement.args if isinstance(arg, str) and arg in self.varies]
        along_rows, along_columns = any(v[0] for v in own), any(v[1] for v in own)
        return along_rows, (along_columns and statement.op not in REDUCTIONS) or statement.op in SCANS

    # Indices

    def row_index_lines(self) -> list[str]:
        """Everything that the kernel needs of its rows' indices."""
        names = [*self.names, *map(self.store_name, self.program.stores)]
        sides = [side for side in (self.outer, self.rows) if side is not None]
        return [line for side in sides for line in self.index_lines(side, names)]

    def index_lines(self, side: Group, names: Iterable[str]) -> list[str]:
        """Splits a group's flat index into the axes that the named loads, statements and stores use."""
        needed = self._split_axes(side, set(names))
        lines = []
        for position, axis in enumerate(side.axes):
            if axis not in needed:
                continue
            if self.runs and side is self.columns:
                lines.append(f"i{axis} = {self._place_of_run(side, position)}")
                continue
            inner = product(side.sizes[position + 1 :])
            text = side.index if inner == 1 else f"{side.index} // {size_text(inner)}"
            if position > 0:
                text += f" % {size_text(side.sizes[position])}"
            lines.append(f"i{axis} = {text}")
        return lines

    def _place_of_run(self, side: Group, position: int) -> str:
        """An index along one of the columns' axes, where tiles keep to runs of the last one."""
        last = len(side.axes) - 1
        if position == last:
            return "within"
        inner = product(side.sizes[position + 1 : last])
        text = "run" if inner == 1 else f"run // {size_text(inner)}"
        return f"{text} % {size_text(side.sizes[position])}" if position > 0 else text

    def _moves(self, access: Load | Store) -> tuple[bool, bool]:
        """Whether an access differs between the rows, and between the columns, of one tile."""
        along_rows, along_columns = self.load_varies(access)
        if self.runs and self.columns is not None:
            along_columns = access.strides[self.columns.axes[-1]] != 0
        return along_rows, along_columns

    def _split_axes(self, side: Group, names: set[str]) -> set[int]:
        axes: set[int] = set()
        for access in accesses(self.program):
            if self._label(access) in names and side.collapsed(access.strides) is None:
                axes |= {a for a in side.axes if access.strides[a] != 0 and self.program.space[a] != 1}
        for statement in self.program.body:
            if statement.op == "iota" and statement.name in names and len(side.axes) > 1:
                axes |= {a for a in side.axes if a == statement.args[0]}
        return axes

    @staticmethod
    def _label(access: Load | Store) -> str:
        return access.name if isinstance(access, Load) else f"store {access.value}"

    def _offset(self, access: Load | Store) -> str:
        parts = []
        if isinstance(access, Load) and access.offset != 0:
            parts.append(size_text(access.offset))
        for side in (self.outer, self.rows, self.columns):
            if side is None:
                continue
            whole = side.collapsed(access.strides)
            if whole is not None:
                steps = [(side.index, whole)] if whole != 0 else []
            else:
                steps = [(f"i{a}", access.strides[a]) for a in side.axes if self.program.space[a] != 1]
            parts += [i if stride == 1 else f"{i} * {size_text(stride)}" for i, stride in steps if stride != 0]
        return " + ".join(parts)

    def _mask(self, varies: tuple[bool, bool]) -> str:
        parts = []
        if varies[0] and self.row_mask:
            parts.append("row_ok")
        if varies[1] and self.column_mask:
            parts.append("column_ok")
        return " & ".join(parts)

    # Loads, statements and stores

    def load_line(self, load: Load, access: Access) -> str:
        offset = self._offset(load)
        pointer = f"{load.value}_ptr + {offset}" if offset else f"{load.value}_ptr"
        moves = self._moves(load)
        if not any(moves):
            pointer += f" + tl.zeros({self.printer.unit}, tl.int32)"
        arguments = [pointer]
        mask = self._mask(moves)
        if mask:
            arguments.append(f"mask={mask}, other=0")
        streams = all(moves) or self.columns is None
        if streams and access.load_eviction:
            arguments.append(f'eviction_policy="{access.load_eviction}"')
        elif access.load_eviction == "evict_first":
            arguments.append('eviction_policy="evict_last"')
        if streams and access.load_cache:
            arguments.append(f'cache_modifier="{access.load_cache}"')
        text = f"tl.load({', '.join(arguments)})"
        if self.dtypes[load.name] != load.dtype:
            text += ".to(tl.float32)"
        return f"{self.names[load.name]} = {text}"

    def term(self, arg: str | bool | int | float, plain: bool = False) -> Term:
        """An argument of a statement as an operand; with `plain`, a symbolic size is no tensor."""
        if not isinstance(arg, str):
            return literal(arg)
        if arg in self.names:
            return Term(self.names[arg], self.dtypes[arg])
        return Term(size_text(arg), "index") if plain else Term(self.printer.full(size_text(arg), "int64"), "int64")

    def statement_line(self, statement: Statement) -> str:
        """A statement that is no reduction."""
        target = self.names[statement.name]
        if statement.op == "iota":
            axis = int(statement.args[0])
            side = next(s for s in (self.rows, self.columns, self.outer) if s is not None and axis in s.axes)
            index = side.index if len(side.axes) == 1 else f"i{axis}"
            if side is self.outer:
                index = f"({index} + tl.zeros({self.printer.unit}, tl.int32))"
            return f"{target} = {index}" + (f".to({TYPES[computed(statement.dtype)]})" * (statement.dtype != "index"))
        if statement.op == "gather":
            return f"{target} = {self._gathered(statement)}"
        plain = self._indexing(statement)
        terms = tuple(self.term(arg, plain) for arg in statement.args)
        if self.divides_by_fewer(statement):
            inverse = self.printer.divide(self.printer.full("1.0", "float32"), self.printer.tensor(terms[1], "float32"))
            return f"{target} = {self.printer.tensor(terms[0], 'float32')} * ({inverse})"
        return f"{target} = {self.printer.expression(statement.op, statement.dtype, terms)}"

    def _indexing(self, statement: Statement) -> bool:
        """Whether a statement computes or compares indices: sizes in it are plain numbers."""
        return statement.dtype == "index" or any(self.dtypes.get(str(arg)) == "index" for arg in statement.args)

    def _gathered(self, statement: Statement) -> str:
        """An element of a table, read where the tile is within the space and the guard holds."""
        index, guard = (self.term(arg) for arg in statement.args)
        varies = self.varies[statement.name]
        own = self.varies.get(str(statement.args[0]), (False, False))
        # The guard may vary where the index does not: a mask must fit its pointer's shape.
        pointer = f"{statement.table}_ptr + {self.printer.tensor(index, index.dtype)}"
        pointer += " + row * 0" * (varies[0] and not own[0]) + " + column * 0" * (varies[1] and not own[1])
        mask = [part for part in (self._mask(varies), guard.text if guard.literal is None else "") if part]
        arguments = [pointer, *([f"mask={' & '.join(mask)}, other=0"] if mask else [])]
        text = f"tl.load({', '.join(arguments)})"
        return text if self.dtypes[statement.name] == statement.dtype else f"{text}.to(tl.float32)"

    def divides_by_fewer(self, statement: Statement) -> bool:
        """Whether a tile is divided by something that is constant along it: then one division a row is enough.

        A second rounding is the price, of about half a unit in the last place; and a quotient by a denormal overflows.
        """
        if statement.op != "div" or self.dtypes[statement.name] != "float32":
            return False
        by = statement.args[1]
        if not isinstance(by, str) or by not in self.varies:
            return False
        whole, part = self.varies[statement.name], self.varies[by]
        return sum(part) < sum(whole)

    def store_line(self, store: Store, access: Access) -> str:
        along_rows, along_columns = self.load_varies(store)
        pointer = " + ".join(part for part in (f"{store.value}_ptr", self._offset(store)) if part)
        across = not self.is_row_store(store)
        # An axis of size 1 adds no offset, but the pointer needs the tile's shape.
        pointer += " + row * 0" * (not along_rows) + " + column * 0" * (across and not along_columns)
        stored = Term(self.names[store.name], self.dtypes[store.name])
        arguments = [pointer, self.stored(stored, store.dtype)]
        mask = self._mask((True, across))
        if mask:
            arguments.append(f"mask={mask}")
        if access.store_cache and (across or self.columns is None):
            arguments.append(f'cache_modifier="{access.store_cache}"')
        return f"tl.store({', '.join(arguments)})"

    def stored(self, term: Term, dtype: str) -> str:
        """A value in the dtype of the tensor that it is stored to."""
        text = self.printer.convert(term, computed(dtype))
        return text if computed(dtype) == dtype else f"{text}.to({TYPES[dtype]})"

    def store_name(self, store: Store) -> str:
        """How `index_lines` refers to a store."""
        return self._label(store)

    def is_row_store(self, store: Store) -> bool:
        """Whether one value a row is stored: only in reductions, where no reduced axis has a stride."""
        if self.columns is None:
            return True
        return any(self.program.reduced) and not self.load_varies(store)[1]

    # What has to be computed for something

    def closure(self, targets: Iterable[str], ready: frozenset[str]) -> list[Load | Statement]:
        """Loads and statements that the targets need and that are not `ready`, in program order."""
        needed: set[str] = set()
        pending = [name for name in targets if name not in ready]
        by_name: dict[str, Load | Statement] = {e.name: e for e in definitions(self.program)}
        while pending:
            name = pending.pop()
            if name in needed:
                continue
            needed.add(name)
            each = by_name[name]
            if isinstance(each, Statement) and each.op != "iota":
                pending += [a for a in each.args if isinstance(a, str) and a in by_name and a not in ready]
        return [e for e in definitions(self.program) if e.name in needed]

    def lines(self, parts: Iterable[Load | Statement], access: Access) -> list[str]:
        """Code of loads and pointwise statements."""
        return [self.load_line(e, access) if isinstance(e, Load) else self.statement_line(e) for e in parts]

    def is_float(self, name: str) -> bool:
        return is_float(self.dtypes[name])
