"""Reductions whose whole reduced extent stays in registers: every element is read once and written once."""

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import Size, product, value
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from . import triton_loop as loop
from .triton_cost import Trips, estimated_ms, strided_waste, vector_width, work
from .triton_passes import RowSchedule, passes, plain, reductions, split_stores
from .triton_row import (
    access,
    access_slots,
    fits_rows,
    index_dtype,
    power_of_two_at_least,
    row_code,
    row_context,
    row_shape,
    row_source,
    rows_default,
    tile_slots,
)

MOST_COLUMNS = 65536
REGISTER_BUDGET = 128
"""Tile elements a thread, all tiles counted, that still leave registers for addresses."""


def _columns(program: LoopProgram, hints: dict[str, int]) -> int:
    return power_of_two_at_least(value(product(program.space[a] for a in loop.reduced_axes(program)), hints))


def _live_elements(program: LoopProgram, setting: Setting, hints: dict[str, int]) -> int:
    """Tile elements less those that the compiler knows to lie past the end, whole strides of the thread block."""
    shape, columns, rows = row_shape(program, hints), _columns(program, hints), int(setting["rows_per_program"])
    threads = 32 * int(setting["num_warps"])
    if setting.get("specialise", True):
        vector = vector_width(program, shape, hints)
        stride = max(1, threads // rows) if shape.strided else threads * vector
        columns = min(columns, -(-shape.extent // stride) * stride)
    return rows * columns


class TritonRowPersistent:
    """`LoopProgram` with reduced axes of at most 65536 elements in all.

    Where the extent is a symbol the host picks the tile's width at each call; the slot `columns` then only carries the
    width at the hinted sizes, so that the tile's area and the elements a thread stay what the search tuned.
    """

    name = "triton_row_persistent"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        if not isinstance(program, LoopProgram) or not fits_rows(program):
            return False
        return _columns(program, hints) <= MOST_COLUMNS

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        shape, columns = row_shape(program, hints), _columns(program, hints)
        area = (8192 if shape.strided else 512) * 4 // shape.element_bytes
        rows = rows_default(shape, columns, device, area)
        rows = min(rows, max(1, 32768 // columns))
        elements = rows * columns
        # A row in one warp folds without shared memory: short rows cost more instructions than bytes.
        per_thread = 32 if columns <= 1024 else 16
        warps = max(1, min(32, power_of_two_at_least(elements // (32 * per_thread))))
        if shape.strided:
            warps = max(4, min(16, power_of_two_at_least(elements // (32 * 32))))
        choices = tuple(r for r in (1, 2, 4, 8, 16, 32, 64, 128, 256) if r <= 4 * max(1, shape.outer))
        return (
            Slot(name="rows_per_program", role="configuration", choices=_with(choices, rows), default=rows),
            Slot(name="num_warps", role="configuration", choices=(1, 2, 4, 8, 16, 32), default=warps),
            Slot(name="columns", role="memory", choices=(columns,), default=columns, about="the tile's width"),
            *tile_slots(program, hints),
            *access_slots(program, shape),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        shape = row_shape(program, hints)
        threads = 32 * int(setting["num_warps"])
        elements = _live_elements(program, setting, hints)
        live = max(1, shape.tiles - sum(s.strides.count(0) == 0 for s in program.stores))
        registers = elements * live * max(1, shape.element_bytes // 4) / threads
        # Elements loaded one by one each keep an address and a mask alive for a while.
        most = REGISTER_BUDGET if vector_width(program, shape, hints) > 1 else REGISTER_BUDGET // 2
        budget = min(most, device.registers_per_sm // threads - 13)
        return registers <= budget and (elements >= threads or int(setting["num_warps"]) <= 4)

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        assert isinstance(program, LoopProgram)
        shape, facts = row_shape(program, hints), work(program, hints, bool(setting["exact_math"]), online=False)
        rows, warps = int(setting["rows_per_program"]), int(setting["num_warps"])
        elements, extent = _live_elements(program, setting, hints), max(1, shape.extent)
        # Every thread folds its share of each row; with several warps the rest goes through shared memory.
        folds = facts.reductions * (44 if warps > 1 else 14) * 32 * warps / extent
        folds = folds / rows if shape.strided else folds
        padding = elements / (rows * extent)
        live = shape.heavy * max(1, shape.element_bytes // 4)
        if shape.strided and facts.vector == 1:
            # Elements far apart, one by one: every one has an address, too.
            live *= 2
        trips = Trips(
            reads=1,
            programs=-(-shape.outer // rows),
            num_warps=warps,
            instructions=facts.held * padding + folds,
            flight_bytes=rows * shape.extent * shape.element_bytes * shape.heavy,
            registers=14 + elements * live / (32 * warps),
            waste=strided_waste(program, setting, hints),
            latency_us=1.5 + 0.3 * facts.reductions,
        )
        # With one program a multiprocessor, reading and writing hardly overlap.
        alone = 1.15 if trips.resident == 1 and facts.written_bytes else 1.0
        return alone * estimated_ms(program, trips, hints, device)

    def render(
        self, program: LoopProgram | MatmulProgram, setting: Setting, values: dict[str, tuple[tuple[Size, ...], str]]
    ) -> KernelSource:
        assert isinstance(program, LoopProgram)
        rows, columns = int(setting["rows_per_program"]), int(setting["columns"])
        code = row_code(program, setting, rows, columns)
        context = row_context(code, setting, values, (rows, columns))
        context["symbolic"] = bool(loop.symbols_of(product(program.space[a] for a in loop.reduced_axes(program))))
        context["lines"] = self._lines(code, access(setting), index_dtype(program))
        return row_source("triton_row_persistent.py.j2", code, values, context)

    def _lines(self, code: loop.TileCode, stream: loop.Access, index: str) -> list[str]:
        schedule = RowSchedule(code)
        names = [*code.names, *(code.store_name(store) for store in code.program.stores)]
        assert code.columns is not None
        lines = [*code.row_index_lines(), *code.index_lines(code.columns, names)]
        lines += schedule.row_loads(stream)
        for each in passes(code, online=False, index_dtype=index):
            lines += code.lines(schedule.elements(each.sources, keep=True), stream)
            for statement in reductions(code.program, each.levels[0]):
                accumulator = plain(code, statement, index)
                lines += [*accumulator.lift(), *accumulator.fold("_row")]
            lines += schedule.resolve(each, "_row")
        row_stores, tile_stores = split_stores(code)
        lines += code.lines(schedule.elements([store.name for store in tile_stores], keep=True), stream)
        return lines + [code.store_line(store, stream) for store in (*row_stores, *tile_stores)]


def _with(choices: tuple[int, ...], default: int) -> tuple[int, ...]:
    return tuple(sorted({*choices, default}))
