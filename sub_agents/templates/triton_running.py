"""Code of running totals: what a chunk adds up to within, what is carried to the next, and what the parts of a row add
up to where several programs share it."""

from typing import Any

from ...state.program import SCANS, LoopProgram, Statement
from . import triton_loop as loop
from .triton_expression import TYPES, is_float
from .triton_passes import Pass, RowSchedule, split_stores
from .triton_reduction import Plain
from .triton_row import pass_body, pass_init
from .triton_split_reduction import partial_stores


class Running:
    """One running total: what a chunk adds up to within, and what is carried to the next."""

    def __init__(self, statement: Statement, code: loop.TileCode) -> None:
        self.statement, self.code = statement, code
        total = statement.model_copy(update={"op": statement.op.replace("scan", "reduce"), "args": statement.args[:1]})
        self.total = Plain(total, code)
        (self.state,) = self.total.states
        self.carry = f"{code.names[statement.name]}_carry"

    @property
    def backwards(self) -> bool:
        return bool(self.statement.args[1])

    def init(self) -> str:
        """What is carried into the first chunk of a row."""
        return f"{self.carry} = tl.full([ROWS, 1], {self.state.identity}, {TYPES[self.state.dtype]})"

    def init_part(self) -> list[str]:
        """What is carried into the first chunk of a part: the totals of all parts that come before it, in order."""
        parts = f"{self.state.name}_parts"
        mask = f"(tl.arange(0, SPLIT)[None, :] {'>' if self.backwards else '<'} part)"
        mask += " & row_ok" * self.code.row_mask
        return [
            f"{parts} = tl.load({parts}_ptr + partial, mask={mask}, other={self.state.identity})",
            f"{self.carry} = {self.total.folded(parts)}",
        ]

    def lines(self) -> list[str]:
        """One chunk."""
        name, lanes = self.code.names[self.statement.name], self.state.name
        found = self.total.combined(self._within(lanes), self.carry)
        if (wanted := self.code.dtypes[self.statement.name]) != self.state.dtype:
            found = f"({found}).to({TYPES[wanted]})"
        carried = self.total.combined(self.carry, f"{lanes}_row")
        return [*self.total.lift(), *self.total.fold("_row"), f"{name} = {found}", f"{self.carry} = {carried}"]

    def _within(self, lanes: str) -> str:
        backwards = ", reverse=True" if self.backwards else ""
        op = self.statement.op
        if op == "scan_sum":
            return f"tl.cumsum({lanes}, 1{backwards})"
        function = {"scan_prod": "mul", "scan_max": "max", "scan_min": "min"}[op]
        assert op == "scan_prod" or is_float(self.state.dtype)
        self.code.printer.used[function] = None
        return f"tl.associative_scan({lanes}, 1, device_{function}{backwards})"


def scans(program: LoopProgram) -> list[Statement]:
    return [s for s in program.body if s.op in SCANS]


def nested(code: loop.TileCode) -> bool:
    """Whether a running total is of another one: then its parts have no totals before the other is finished."""
    operands = [str(s.args[0]) for s in scans(code.program)]
    return any(isinstance(p, Statement) and p.op in SCANS for p in code.closure(operands, frozenset()))


def totals(code: loop.TileCode) -> Pass:
    """The reductions that give the totals of parts."""
    return Pass((0,), tuple(Running(s, code).total for s in scans(code.program)))


def _title(code: loop.TileCode) -> str:
    return ", ".join(s.name for s in scans(code.program))


def _backwards(code: loop.TileCode) -> bool:
    """All running totals of a program run in one direction."""
    return bool(scans(code.program)[0].args[1])


def _walk(code: loop.TileCode, schedule: RowSchedule, stream: loop.Access) -> list[str]:
    """One chunk of all that is stored."""
    _, stores = split_stores(code)
    wanted = [*(s.name for s in scans(code.program)), *(store.name for store in stores)]
    parts = schedule.elements(wanted, keep=False)
    assert code.columns is not None
    lines = code.index_lines(code.columns, [*(p.name for p in parts), *map(code.store_name, stores)])
    for part in parts:
        scanned = isinstance(part, Statement) and part.op in SCANS
        lines += Running(part, code).lines() if isinstance(part, Statement) and scanned else code.lines([part], stream)
    return lines + [code.store_line(store, stream) for store in stores]


def whole_rows(code: loop.TileCode, stream: loop.Access) -> dict[str, Any]:
    """Names of the kernel file in which a program walks whole rows."""
    schedule = RowSchedule(code)
    row_stores, _ = split_stores(code)
    head = [*code.row_index_lines(), *schedule.row_loads(stream)]
    only = {
        "about": f"Scan {_title(code)}",
        "init": [Running(s, code).init() for s in scans(code.program)],
        "lines": _walk(code, schedule, stream),
        "after": [],
        "reverse": _backwards(code),
        "runs": "",
    }
    return {"head": head, "passes": [only], "tail": [code.store_line(store, stream) for store in row_stores]}


def shared_rows(code: loop.TileCode, stream: loop.Access, name: str, extent: str) -> list[dict[str, Any]]:
    """The two kernels in which programs share a row of `extent` columns: totals of the parts, then the parts."""
    made, backwards = totals(code), _backwards(code)
    row_stores, _ = split_stores(code)
    common = {"loops": True, "runs": "", "backwards": backwards}
    schedule = RowSchedule(code)
    first = {
        "kernel": f"{name}_totals_kernel",
        "about": f"Totals of the parts of {_title(code)}; nothing comes after the last part, which needs none.",
        "reverse": False,
        "head": [*code.row_index_lines(), *schedule.row_loads(stream)],
        "init": [
            f"end = tl.where({'begin == 0' if backwards else f'end == {extent}'}, begin, end)",
            *pass_init(made),
        ],
        "lines": pass_body(code, made, schedule, stream),
        "tail": [*made.fold_lines("_part"), *partial_stores(code, made)],
    }
    schedule = RowSchedule(code)
    tail = [f"    {code.store_line(store, stream)}" for store in row_stores]
    second = {
        "kernel": f"{name}_scan_kernel",
        "about": f"Scans the parts of {_title(code)}, each from the totals of those before it.",
        "reverse": True,
        "head": [*code.row_index_lines(), *schedule.row_loads(stream)],
        "init": [line for s in scans(code.program) for line in Running(s, code).init_part()],
        "lines": _walk(code, schedule, stream),
        "tail": ["if part == 0:", *tail] if tail else [],
    }
    return [common | first, common | second]
