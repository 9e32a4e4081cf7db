"""Running totals: a row's chunks one after the other, each scanned by itself and added to what came before."""

from typing import Any

from ...state.device import DeviceSheet
from ...state.program import SCANS, LoopProgram, MatmulProgram, Statement
from ...state.sizes import Size
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from . import triton_loop as loop
from .triton_expression import TYPES, is_float
from .triton_passes import RowSchedule, split_stores
from .triton_printable import printable
from .triton_reduction import Plain
from .triton_row import (
    access,
    access_slots,
    looped_tile_is_legal,
    power_of_two_at_least,
    row_code,
    row_context,
    row_shape,
    row_source,
    rows_default,
    tile_slots,
)

TILE = 4096
"""Elements a program has in hand by default, in bytes of float32."""


class TritonScan:
    """`LoopProgram` with running totals along reduced axes of any extent."""

    name = "triton_scan"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        return isinstance(program, LoopProgram) and program.scans and printable(program)

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        shape = row_shape(program, hints)
        longest, tile = power_of_two_at_least(shape.extent), TILE * 4 // max(4, shape.element_bytes)
        block = min(longest, 32 if shape.strided else tile)
        rows = rows_default(shape, block, device, tile)
        blocks = {b for b in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192) if b <= longest} | {block}
        several = {r for r in (1, 2, 4, 8, 16, 32, 64, 128, 256) if r <= max(1, 4 * shape.outer)} | {rows}
        warps = max(1, min(16, power_of_two_at_least(rows * block // 256)))
        return (
            Slot(name="block_size", role="configuration", choices=tuple(sorted(blocks)), default=block),
            Slot(name="rows_per_program", role="configuration", choices=tuple(sorted(several)), default=rows),
            Slot(name="num_warps", role="configuration", choices=(1, 2, 4, 8, 16, 32), default=warps),
            *tile_slots(program, hints),
            *access_slots(program, shape),
            Slot(name="stages", role="compute", choices=(1, 2, 3, 4), default=1, about="software pipeline of the loop"),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        return looped_tile_is_legal(program, setting, hints, device)

    def render(
        self, program: LoopProgram | MatmulProgram, setting: Setting, values: dict[str, tuple[tuple[Size, ...], str]]
    ) -> KernelSource:
        assert isinstance(program, LoopProgram)
        rows, columns = int(setting["rows_per_program"]), int(setting["block_size"])
        code = row_code(program, setting, rows, columns)
        context = row_context(code, setting, values, (rows, columns))
        context |= _parts(code, access(setting))
        context["stages"] = f", num_stages={setting['stages']}" if int(setting["stages"]) > 1 else ""
        return row_source("triton_row_looped.py.j2", code, values, context)


def _parts(code: loop.TileCode, stream: loop.Access) -> dict[str, Any]:
    schedule = RowSchedule(code)
    row_stores, tile_stores = split_stores(code)
    head = [*code.row_index_lines(), *schedule.row_loads(stream)]
    scans = [s for s in code.program.body if s.op in SCANS]
    parts = schedule.elements([*(s.name for s in scans), *(store.name for store in tile_stores)], keep=False)
    assert code.columns is not None
    lines = code.index_lines(code.columns, [*(p.name for p in parts), *map(code.store_name, tile_stores)])
    for part in parts:
        scanned = isinstance(part, Statement) and part.op in SCANS
        lines += Running(part, code).lines() if isinstance(part, Statement) and scanned else code.lines([part], stream)
    lines += [code.store_line(store, stream) for store in tile_stores]
    only = {
        "about": f"Scan {', '.join(s.name for s in scans)}",
        "init": [Running(s, code).init() for s in scans],
        "lines": lines,
        "after": [],
        "reverse": bool(scans[0].args[1]),
        "runs": "",
    }
    return {"head": head, "passes": [only], "tail": [code.store_line(store, stream) for store in row_stores]}


class Running:
    """One running total: what a chunk adds up to within, and what is carried to the next."""

    def __init__(self, statement: Statement, code: loop.TileCode) -> None:
        self.statement, self.code = statement, code
        total = statement.model_copy(update={"op": statement.op.replace("scan", "reduce"), "args": statement.args[:1]})
        self.total = Plain(total, code)
        (self.state,) = self.total.states
        self.carry = f"{code.names[statement.name]}_carry"

    def init(self) -> str:
        """What is carried into the first chunk."""
        return f"{self.carry} = tl.full([ROWS, 1], {self.state.identity}, {TYPES[self.state.dtype]})"

    def lines(self) -> list[str]:
        """One chunk."""
        name, lanes = self.code.names[self.statement.name], self.state.name
        found = self.total.combined(self._within(lanes), self.carry)
        if (wanted := self.code.dtypes[self.statement.name]) != self.state.dtype:
            found = f"({found}).to({TYPES[wanted]})"
        carried = self.total.combined(self.carry, f"{lanes}_row")
        return [*self.total.lift(), *self.total.fold("_row"), f"{name} = {found}", f"{self.carry} = {carried}"]

    def _within(self, lanes: str) -> str:
        backwards = ", reverse=True" if self.statement.args[1] else ""
        op = self.statement.op
        if op == "scan_sum":
            return f"tl.cumsum({lanes}, 1{backwards})"
        function = {"scan_prod": "mul", "scan_max": "max", "scan_min": "min"}[op]
        assert op == "scan_prod" or is_float(self.state.dtype)
        self.code.printer.used[function] = None
        return f"tl.associative_scan({lanes}, 1, device_{function}{backwards})"
