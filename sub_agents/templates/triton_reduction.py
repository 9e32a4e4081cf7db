"""Reductions of a loop program in Triton: what each keeps a lane, how lanes fold into a row, which passes are needed.

A reduction's state is a few values a lane. A chunk of data merges into the lanes, lanes fold into a row's state (and
the partial states of a split reduction fold in just the same way), and the row's state resolves to the result.
Two pairs of dependent reductions need one pass instead of two, exactly: a maximum followed by a sum of
`exp(x - maximum)` (online softmax, Milakov and Gimelshein 2018), and a sum followed by a sum of squared deviations
from anything known a row (Welford 1962, combined as by Chan, Golub and LeVeque 1979).
"""

from dataclasses import dataclass

from ...state.program import Statement
from .triton_expression import TYPES, is_float
from .triton_loop import TileCode

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
        return [f"{state.name} = {self.combined(state.name, self._masked())}"]

    def fold(self, suffix: str) -> list[str]:
        (state,) = self.states
        return [f"{state.name}{suffix} = {self.folded(state.name)}"]

    def folded(self, lanes: str) -> str:
        """The states of all columns as one a row."""
        (state,) = self.states
        op, printer = self.statement.op, self.code.printer
        if op == "reduce_sum":
            return f"tl.sum({lanes}, axis=1, keep_dims=True)"
        if op == "reduce_prod":
            printer.used["mul"] = None
            return f"tl.reduce({lanes}, 1, device_mul, keep_dims=True)"
        short = "max" if op in ("reduce_max", "reduce_any") else "min"
        if is_float(state.dtype):
            return printer.call(f"reduce_{short}", lanes)
        return f"tl.{short}({lanes}, axis=1, keep_dims=True)"

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

    def combined(self, x: str, y: str) -> str:
        """Two states as one."""
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
    counted: bool = False
    """Whether the loop counts what a lane sees: a count made after it from bounds that vary from program to program
    takes Triton 3.6 thousands of instructions a thread, which works it out for all lanes."""

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
        mean, squares, count = self.states
        seen = "tl.where(column_ok, 1.0, 0.0)" if self.code.column_mask else "1.0"
        delta = f"{self.code.names[self.value]} - {mean.name}"
        if self.code.column_mask:
            delta = f"tl.where(column_ok, {delta}, 0.0)"
        return [
            f"delta = {delta}",
            f"{mean.name} += delta * weight",
            f"{squares.name} += delta * delta * (1.0 - weight)",
            *([f"{count.name} += {seen}"] if self.counted else []),
        ]

    def count(self) -> list[str]:
        """Elements that each lane saw of the columns from `begin` to `end`."""
        if self.counted:
            return []
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
