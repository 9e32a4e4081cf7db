"""Reductions of a loop program in Triton: what each keeps a lane, how lanes fold into a row, which passes are needed.

A reduction's state is a few values a lane. A chunk of data merges into the lanes, lanes fold into a row's state (and
the partial states of a split reduction fold in just the same way), and the row's state resolves to the result.
Two pairs of dependent reductions need one pass instead of two, exactly: a maximum followed by a sum of
`exp(x - maximum)` (online softmax, Milakov and Gimelshein 2018), and a sum followed by a sum of squared deviations
from anything known a row (Welford 1962, combined as by Chan, Golub and LeVeque 1979).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...state.program import REDUCTIONS, Load, LoopProgram, Statement, Store
from .triton_expression import TYPES, Printer, is_float
from .triton_loop import Access, TileCode

TILE_SHAPE = "[ROWS, COLUMNS]"
_INT_LIMITS = {"int64": 2**63 - 1, "int32": 2**31 - 1, "int16": 2**15 - 1, "int8": 127, "uint8": 255}


@dataclass(frozen=True)
class State:
    """One value a lane: its name, dtype and the value that changes nothing."""

    name: str
    dtype: str
    identity: str

    @property
    def init(self) -> str:
        return f"{self.name} = tl.full({TILE_SHAPE}, {self.identity}, {TYPES[self.dtype]})"


@dataclass(frozen=True)
class Plain:
    """A sum, product, extremum, any or all."""

    statement: Statement
    code: TileCode

    @property
    def statements(self) -> tuple[Statement, ...]:
        return (self.statement,)

    @property
    def sources(self) -> tuple[str, ...]:
        return (str(self.statement.args[0]),)

    @property
    def _dtype(self) -> str:
        own = self.code.dtypes[str(self.statement.args[0])]
        if self.statement.op in ("reduce_sum", "reduce_prod"):
            return self.code.dtypes[self.statement.name]
        return "int32" if own == "bool" or self.statement.op in ("reduce_any", "reduce_all") else own

    @property
    def states(self) -> tuple[State, ...]:
        op, dtype = self.statement.op, self._dtype
        zero, one = ("0.0", "1.0") if is_float(dtype) else ("0", "1")
        identity = {"reduce_sum": zero, "reduce_prod": one, "reduce_any": zero, "reduce_all": one}.get(op)
        if identity is None:
            identity = extreme(dtype, lowest=op == "reduce_max")
        return (State(f"{self.code.names[self.statement.name]}_lanes", dtype, identity),)

    def lift(self) -> list[str]:
        (state,) = self.states
        return [f"{state.name} = {self._masked()}"]

    def merge(self) -> list[str]:
        (state,) = self.states
        return [f"{state.name} = {self._combine(state.name, self._masked())}"]

    def fold(self, suffix: str) -> list[str]:
        (state,) = self.states
        op, printer = self.statement.op, self.code.printer
        if op == "reduce_sum":
            text = f"tl.sum({state.name}, axis=1, keep_dims=True)"
        elif op == "reduce_prod":
            printer.used["mul"] = None
            text = f"tl.reduce({state.name}, 1, device_mul, keep_dims=True)"
        else:
            short = "max" if op in ("reduce_max", "reduce_any") else "min"
            if is_float(state.dtype):
                text = printer.call(f"reduce_{short}", state.name)
            else:
                text = f"tl.{short}({state.name}, axis=1, keep_dims=True)"
        return [f"{state.name}{suffix} = {text}"]

    def resolve(self, suffix: str, statement: Statement) -> list[str]:
        (state,) = self.states
        wanted = self.code.dtypes[statement.name]
        text = f"{state.name}{suffix}"
        if wanted != state.dtype:
            text = f"{text} != 0" if wanted == "bool" else f"{text}.to({TYPES[wanted]})"
        return [f"{self.code.names[statement.name]} = {text}"]

    def _masked(self) -> str:
        (state,) = self.states
        term = self.code.term(self.statement.args[0])
        if self.statement.op in ("reduce_any", "reduce_all"):
            text = f"({self.code.printer.tensor(term, 'bool')}).to(tl.int32)"
        else:
            text = self.code.printer.tensor(term, state.dtype)
        return masked(self.code, str(self.statement.args[0]), text, state.identity)

    def _combine(self, x: str, y: str) -> str:
        (state,) = self.states
        op = self.statement.op
        if op in ("reduce_sum", "reduce_prod"):
            return f"{x} {'+' if op == 'reduce_sum' else '*'} {y}"
        short = "max" if op in ("reduce_max", "reduce_any") else "min"
        return self.code.printer.call(short, x, y) if is_float(state.dtype) else f"tl.{short}imum({x}, {y})"


@dataclass(frozen=True)
class Argument:
    """The index of an extremum along the flattened columns; the first of equals, and NaN wins."""

    statement: Statement
    code: TileCode
    index_dtype: str

    @property
    def statements(self) -> tuple[Statement, ...]:
        return (self.statement,)

    @property
    def sources(self) -> tuple[str, ...]:
        return (str(self.statement.args[0]),)

    @property
    def states(self) -> tuple[State, ...]:
        name, source = self.code.names[self.statement.name], self.code.dtypes[str(self.statement.args[0])]
        dtype = "int32" if source == "bool" else source
        lowest = self.statement.op == "reduce_argmax"
        far = str(_INT_LIMITS[self.index_dtype])
        return State(f"{name}_value", dtype, extreme(dtype, lowest)), State(f"{name}_index", self.index_dtype, far)

    def lift(self) -> list[str]:
        value, index = self.states
        source = str(self.statement.args[0])
        text = self.code.printer.tensor(self.code.term(source), value.dtype)
        return [
            f"{value.name} = {masked(self.code, source, text, value.identity)}",
            f"{index.name} = tl.broadcast_to({self._index()}, {TILE_SHAPE})",
        ]

    def _index(self) -> str:
        index = self.states[1]
        if self.code.column_mask:
            return f"tl.where(column_ok, column.to({TYPES[index.dtype]}), {index.identity})"
        return f"column.to({TYPES[index.dtype]})"

    def merge(self) -> list[str]:
        value, index = self.states
        source = str(self.statement.args[0])
        text = self.code.printer.tensor(self.code.term(source), value.dtype)
        new = masked(self.code, source, text, value.identity)
        call = self.code.printer.call(self._function, value.name, index.name, new, self._index())
        return [f"{value.name}, {index.name} = {call}"]

    @property
    def _function(self) -> str:
        return self.statement.op.removeprefix("reduce_")

    def fold(self, suffix: str) -> list[str]:
        value, index = self.states
        call = self.code.printer.call(f"reduce_{self._function}", value.name, index.name, index.identity)
        return [f"{value.name}{suffix}, {index.name}{suffix} = {call}"]

    def resolve(self, suffix: str, statement: Statement) -> list[str]:
        index = self.states[1]
        wanted = TYPES[self.code.dtypes[statement.name]]
        return [f"{self.code.names[statement.name]} = {index.name}{suffix}.to({wanted})"]


@dataclass(frozen=True)
class OnlineExp:
    """A maximum and the sum of `exp(x - maximum)`, in one pass."""

    peak: Statement
    total: Statement
    code: TileCode

    @property
    def statements(self) -> tuple[Statement, ...]:
        return self.peak, self.total

    @property
    def sources(self) -> tuple[str, ...]:
        return (str(self.peak.args[0]),)

    @property
    def states(self) -> tuple[State, ...]:
        name = self.code.names[self.total.name]
        return (
            State(f"{name}_peak", self.code.dtypes[self.peak.name], 'float("-inf")'),
            State(f"{name}_sum", self.code.dtypes[self.total.name], "0.0"),
        )

    def merge(self) -> list[str]:
        peak, total = self.states
        source = str(self.peak.args[0])
        new = masked(self.code, source, self.code.names[source], peak.identity)
        decay = self.code.printer.exp("-tl.abs(gap)", peak.dtype)
        return [
            f"fresh = {new}",
            f"gap = fresh - {peak.name}",
            f"decay = {decay}",
            f"grown = tl.where(gap > 0, {total.name} * decay + 1.0, {total.name} + decay)",
            f'{total.name} = tl.where(fresh == float("-inf"), {total.name}, grown)',
            f"{peak.name} = {self.code.printer.call('max', peak.name, 'fresh')}",
        ]

    def fold(self, suffix: str) -> list[str]:
        peak, total = self.states
        printer = self.code.printer
        scaled = f"{total.name} * {printer.exp(f'{peak.name} - {peak.name}{suffix}', peak.dtype)}"
        return [
            f"{peak.name}{suffix} = {printer.call('reduce_max', peak.name)}",
            f'{total.name}{suffix} = tl.sum(tl.where({peak.name} == float("-inf"), 0.0, {scaled}), '
            "axis=1, keep_dims=True)",
        ]

    def resolve(self, suffix: str, statement: Statement) -> list[str]:
        peak, total = (f"{state.name}{suffix}" for state in self.states)
        target = self.code.names[statement.name]
        if statement is self.peak:
            return [f"{target} = {peak}"]
        # Where all is -inf every term of the sum is exp(-inf + inf).
        return [f'{target} = tl.where({peak} == float("-inf"), float("nan"), {total})']


@dataclass(frozen=True)
class Deviations:
    """A sum of squared deviations from a value that is known a row only after the pass."""

    total: Statement
    value: str
    centre: str
    code: TileCode

    @property
    def statements(self) -> tuple[Statement, ...]:
        return (self.total,)

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.value,)

    @property
    def states(self) -> tuple[State, ...]:
        name, dtype = self.code.names[self.total.name], self.code.dtypes[self.total.name]
        return tuple(State(f"{name}_{part}", dtype, "0.0") for part in ("mean", "squares", "count"))

    def merge(self) -> list[str]:
        mean, squares, _ = self.states
        delta = f"{self.code.names[self.value]} - {mean.name}"
        if self.code.column_mask:
            delta = f"tl.where(column_ok, {delta}, 0.0)"
        return [
            f"delta = {delta}",
            f"{mean.name} += delta * weight",
            f"{squares.name} += delta * delta * (1.0 - weight)",
        ]

    def count(self) -> list[str]:
        """Elements that each lane saw of the columns from `begin` to `end`."""
        seen = "(end - begin - tl.arange(0, COLUMNS)[None, :] + COLUMNS - 1) // COLUMNS"
        _, squares, state = self.states
        # Chosen by a lane's own state, or Triton 3.6 gives every thread all lanes' counts. NaN stays NaN either way.
        counted = f"tl.maximum({seen}, 0).to({TYPES[state.dtype]})"
        return [f"{state.name} = tl.where({squares.name} >= 0.0, {counted}, 1.0)"]

    def fold(self, suffix: str) -> list[str]:
        mean, squares, count = (state.name for state in self.states)
        spread = f"{squares} + {count} * ({mean} - {mean}{suffix}) * ({mean} - {mean}{suffix})"
        return [
            f"{count}{suffix} = tl.sum({count}, axis=1, keep_dims=True)",
            f"{mean}{suffix} = tl.sum({count} * {mean}, axis=1, keep_dims=True) / tl.maximum({count}{suffix}, 1.0)",
            f"{squares}{suffix} = tl.sum({spread}, axis=1, keep_dims=True)",
        ]

    def resolve(self, suffix: str, statement: Statement) -> list[str]:
        mean, squares, count = (f"{state.name}{suffix}" for state in self.states)
        off = f"({mean} - {self.code.names[self.centre]})"
        return [f"{self.code.names[statement.name]} = {squares} + {count} * {off} * {off}"]


Accumulator = Plain | Argument | OnlineExp | Deviations


def extreme(dtype: str, lowest: bool) -> str:
    """The least or the greatest value of a dtype."""
    if is_float(dtype):
        return f'float("{"-" if lowest else ""}inf")'
    limit = _INT_LIMITS[dtype]
    if not lowest:
        return str(limit)
    return "0" if dtype == "uint8" else str(-limit - 1)


def masked(code: TileCode, name: str, text: str, identity: str) -> str:
    """A value on the whole tile, with the identity in columns past the end."""
    if code.varies[name] != (True, True):
        text = f"tl.broadcast_to({text}, {TILE_SHAPE})"
    return f"tl.where(column_ok, {text}, {identity})" if code.column_mask else text


@dataclass(frozen=True)
class Pass:
    """One trip over the columns and the reductions that it completes, in order of level."""

    levels: tuple[int, ...]
    accumulators: tuple[Accumulator, ...]

    @property
    def states(self) -> tuple[State, ...]:
        return tuple(state for each in self.accumulators for state in each.states)

    @property
    def looped_states(self) -> tuple[State, ...]:
        """States that the loop carries: counts are known without."""
        return tuple(state for state in self.states if not state.name.endswith("_count"))

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for each in self.accumulators for name in each.sources))

    @property
    def has_deviations(self) -> bool:
        return any(isinstance(each, Deviations) for each in self.accumulators)

    def count_lines(self) -> list[str]:
        return [line for each in self.accumulators if isinstance(each, Deviations) for line in each.count()]

    def merge_lines(self) -> list[str]:
        return [line for each in self.accumulators for line in each.merge()]

    def fold_lines(self, suffix: str) -> list[str]:
        return [line for each in self.accumulators for line in each.fold(suffix)]


def reductions(program: LoopProgram, level: int) -> list[Statement]:
    return [s for s in program.body if s.op in REDUCTIONS and s.level == level]


def plain(code: TileCode, statement: Statement, index_dtype: str = "int32") -> Plain | Argument:
    """The accumulator of a reduction on its own."""
    if statement.op in ("reduce_argmax", "reduce_argmin"):
        return Argument(statement, code, index_dtype)
    return Plain(statement, code)


def passes(code: TileCode, online: bool, index_dtype: str = "int32") -> list[Pass]:
    """The passes that complete all reductions; with `online` dependent pairs share one where that is exact."""
    program, made, level = code.program, [], 0
    while level < program.levels:
        first = reductions(program, level)
        pairs = _pairs(code, level) if online and level + 1 < program.levels else None
        if pairs:
            taken = {s.name for each in pairs for s in each.statements}
            alone = [plain(code, s, index_dtype) for s in first if s.name not in taken]
            made.append(Pass((level, level + 1), (*alone, *pairs)))
            level += 2
        else:
            made.append(Pass((level,), tuple(plain(code, s, index_dtype) for s in first)))
            level += 1
    return made


def can_merge(program: LoopProgram, code: TileCode) -> bool:
    """Whether `online` saves a pass."""
    return len(passes(code, online=True)) < program.levels


def _pairs(code: TileCode, level: int) -> list[OnlineExp | Deviations] | None:
    """Accumulators for every reduction of the next level that run with this level's, or None if one cannot."""
    found: list[OnlineExp | Deviations] = []
    for statement in reductions(code.program, level + 1):
        pair = _online_exp(code, statement, level) or _deviations(code, statement, level)
        if pair is None:
            return None
        found.append(pair)
    peaks = [each.peak.name for each in found if isinstance(each, OnlineExp)]
    return found if len(set(peaks)) == len(peaks) else None


def _statement(code: TileCode, name: object) -> Statement | None:
    return next((s for s in code.program.body if s.name == name), None)


def _online_exp(code: TileCode, total: Statement, level: int) -> OnlineExp | None:
    weight = _statement(code, total.args[0])
    if total.op != "reduce_sum" or weight is None or weight.op != "exp":
        return None
    shifted = _statement(code, weight.args[0])
    if shifted is None or shifted.op != "sub":
        return None
    peak = _statement(code, shifted.args[1])
    if peak is None or peak.op != "reduce_max" or peak.level != level or peak.args[0] != shifted.args[0]:
        return None
    if not code.is_float(peak.name) or code.dtypes[peak.name] != code.dtypes[str(peak.args[0])]:
        return None
    return OnlineExp(peak, total, code) if code.dtypes[peak.name] == code.dtypes[total.name] else None


def _deviations(code: TileCode, total: Statement, level: int) -> Deviations | None:
    square = _statement(code, total.args[0])
    if total.op != "reduce_sum" or square is None or not code.is_float(total.name):
        return None
    is_square = (
        square.op == "square"
        or (square.op == "mul" and square.args[0] == square.args[1])
        or (square.op == "pow" and square.args[1] in (2, 2.0))
    )
    difference = _statement(code, square.args[0]) if is_square else None
    if difference is None or difference.op != "sub":
        return None
    sides = [arg for arg in difference.args if isinstance(arg, str) and arg in code.names]
    if len(sides) != 2:
        return None
    varying = [name for name in sides if code.varies[name][1]]
    level_of = {s.name: s.level for s in code.program.body}
    if len(varying) != 1 or level_of.get(varying[0], 0) > level or _depends_on_level(code, varying[0], level):
        return None
    (value,) = varying
    (centre,) = [name for name in sides if name != value]
    same = {code.dtypes[value], code.dtypes[centre], code.dtypes[total.name]}
    return Deviations(total, value, centre, code) if len(same) == 1 else None


def _depends_on_level(code: TileCode, name: str, level: int) -> bool:
    """Whether a value needs a reduction of the given level or a later one."""
    parts = code.closure([name], frozenset())
    return any(isinstance(p, Statement) and p.op in REDUCTIONS and p.level >= level for p in parts)


class RowSchedule:
    """Hands out row-level code (and keeps track of what is ready) as a kernel's passes complete."""

    def __init__(self, code: TileCode) -> None:
        self.code = code
        self.ready: set[str] = set()

    def row_loads(self, access: Access) -> list[str]:
        """Loads that do not vary along columns: once, at the top."""
        loads = [load for load in self.code.program.loads if not self.code.varies[load.name][1]]
        self.ready |= {load.name for load in loads}
        return self.code.lines(loads, access) + self._statements()

    def resolve(self, each: Pass, suffix: str) -> list[str]:
        """Results of a finished pass, and the row-level statements that follow from them."""
        lines = []
        for level in each.levels:
            for accumulator in each.accumulators:
                for statement in accumulator.statements:
                    if statement.level == level:
                        lines += accumulator.resolve(suffix, statement)
                        self.ready.add(statement.name)
            lines += self._statements()
        return lines

    def _statements(self) -> list[str]:
        lines = []
        for statement in self.code.program.body:
            if statement.op in REDUCTIONS or statement.name in self.ready or self.code.varies[statement.name][1]:
                continue
            needed = [] if statement.op == "iota" else [a for a in statement.args if a in self.code.names]
            if all(name in self.ready for name in needed):
                lines.append(self.code.statement_line(statement))
                self.ready.add(statement.name)
        return lines

    def elements(self, targets: Iterable[str], keep: bool) -> Sequence[Load | Statement]:
        """What the targets still need on the tile; with `keep` it stays available (a tile held in registers)."""
        parts = self.code.closure(targets, frozenset(self.ready))
        if keep:
            self.ready |= {part.name for part in parts}
        return parts


def split_stores(code: TileCode) -> tuple[list[Store], list[Store]]:
    """Stores of one value a row, and stores of the whole tile."""
    rows = [store for store in code.program.stores if code.is_row_store(store)]
    return rows, [store for store in code.program.stores if store not in rows]


def row_printer(exact: bool) -> Printer:
    return Printer(unit="[1, 1]", exact=exact)
