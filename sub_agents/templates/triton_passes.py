"""Which trips over the columns a loop program needs, and what is computed once a row between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...state.program import REDUCTIONS, Load, LoopProgram, Statement, Store
from .triton_expression import Printer
from .triton_loop import Access, TileCode
from .triton_reduction import Accumulator, Argument, Deviations, OnlineExp, Plain, State


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
        """States that the loop carries: counts are mostly known without."""
        known = {a.states[-1] for a in self.accumulators if isinstance(a, Deviations) and not a.counted}
        return tuple(state for state in self.states if state not in known)

    def counting(self) -> "Pass":
        """The same with counts carried by the loop, for columns whose bounds vary."""
        accumulators = (replace(a, counted=True) if isinstance(a, Deviations) else a for a in self.accumulators)
        return replace(self, accumulators=tuple(accumulators))

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
