"""Running totals: a row's chunks one after the other, each scanned by itself and added to what came before.

Where rows are few, each is shared out over many programs: one kernel totals the parts of a row, the next combines the
totals of the parts before its own, always in the same order, and goes on from there through its part.
"""

from dataclasses import replace
from math import ceil, isqrt

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import Size
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from . import triton_loop as loop
from .triton_cost import estimated_ms, looped_trips, pass_cost, vector_width
from .triton_passes import row_printer
from .triton_printable import printable
from .triton_row import (
    RowShape,
    access,
    access_slots,
    looped_tile_is_legal,
    power_of_two_at_least,
    read_bytes,
    row_code,
    row_context,
    row_shape,
    row_source,
    rows_default,
    tile_code,
    tile_slots,
)
from .triton_running import nested, scans, shared_rows, totals, whole_rows
from .triton_split_reduction import partials_fit, workspaces

TILE = 4096
"""Elements a program has in hand by default, in bytes of float32."""
ENOUGH_PER_SM = 8
"""Programs of whole rows that fill a multiprocessor: rows are not split where there are as many."""
SPLIT_PER_SM = 16
"""Parts of rows a multiprocessor: twice what it holds at once, so that none waits for the last of another."""
LEAST_SPLIT, MOST_SPLIT = 1024, 1024
"""Elements of a row and parts of it."""
LONG_WALK = 4
"""Chunks one after the other that take longer than a second kernel."""
CACHE_SHARE = 0.8
"""How much of L2 the inputs may take if the second kernel is to find there what the first one read."""
CACHED = 0.3
"""What reading from L2 costs of reading from memory."""
SCAN_INSTRUCTIONS, SHUFFLE_INSTRUCTIONS, WARP_INSTRUCTIONS = 3, 15, 2
"""Of one lane a running total: for each element; for each run of neighbours that a thread has; for each such run and
warp beside its own. A run is one element where rows are not aligned (counted in compiled kernels for sm_90)."""
SCAN_US = 1.5
"""What a chunk waits for its running totals: shuffles, and two meetings of all warps."""


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
        split = 1
        if few_and_long(program, (rows, block), hints, device):
            # Smaller chunks: more programs that are under way at once, and parts of more nearly one length (on an H200
            # chunks of 1024 took 44 us for 333 x 20011 elements where those of 2048 took 62).
            block = block if shape.strided else block // 4
            wanted = SPLIT_PER_SM * device.sm_count // max(1, tiles_of(shape, rows))
            split = power_of_two_at_least(min(wanted, -(-shape.extent // block), most_split(program, hints)))
        blocks = {b for b in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192) if b <= longest} | {block}
        several = {r for r in (1, 2, 4, 8, 16, 32, 64, 128, 256) if r <= max(1, 4 * shape.outer)} | {rows}
        # Elements a thread: more where rows are not aligned, since then every element looks at the totals of all warps.
        each = 8 if shape.strided or split > 1 or vector_width(program, shape, hints) > 1 else 16
        warps = max(1, min(16, power_of_two_at_least(rows * block // (32 * each))))
        return (
            Slot(name="block_size", role="configuration", choices=tuple(sorted(blocks)), default=block),
            Slot(name="rows_per_program", role="configuration", choices=tuple(sorted(several)), default=rows),
            Slot(name="num_warps", role="configuration", choices=(1, 2, 4, 8, 16, 32), default=warps),
            *tile_slots(program, hints),
            *access_slots(program, shape),
            Slot(name="stages", role="compute", choices=(1, 2, 3, 4), default=1, about="software pipeline of the loop"),
            *split_slots(program, (rows, split), hints, device),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        if not looped_tile_is_legal(program, setting, hints, device):
            return False
        split, shape = int(setting.get("split", 1)), row_shape(program, hints)
        if split == 1:
            return True
        few = tiles_of(shape, int(setting["rows_per_program"])) < ENOUGH_PER_SM * device.sm_count
        # More than half of the parts have something to do.
        return few and split // 2 * int(setting["block_size"]) < shape.extent and partials_fit(setting)

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        assert isinstance(program, LoopProgram)
        shape, split = row_shape(program, hints), int(setting.get("split", 1))
        outer, rows, block = max(1, shape.outer), int(setting["rows_per_program"]), int(setting["block_size"])
        tiles, steps = tiles_of(shape, rows), max(1, ceil(ceil(shape.extent / split) / block))
        # Nothing is under way for rows that are not there, or for chunks that do not follow.
        real = {**setting, "rows_per_program": min(rows, outer), "stages": min(int(setting["stages"]), steps)}
        trips = looped_trips(program, real, hints, tiles * split, launches=min(2, split))
        work = scan_instructions(program, setting, hints) + trips.instructions
        walked_ms = estimated_ms(program, replace(trips, instructions=work * tiles * rows / outer), hints, device)
        on_each = trips.programs / device.sm_count
        waves = on_each / trips.resident
        uneven = ceil(on_each) / on_each if waves <= 1 < on_each else 1.0
        # Programs that began together wait for their running totals together.
        waiting_ms = 1e-3 * SCAN_US * len(scans(program)) * steps / max(1.0, waves)
        again = (CACHED if cached(program, hints, device) else 1.0) * (split > 1)
        return uneven * walked_ms + waiting_ms + again * 1e3 * read_bytes(program, hints) / device.copy_bytes_per_s

    def render(
        self, program: LoopProgram | MatmulProgram, setting: Setting, values: dict[str, tuple[tuple[Size, ...], str]]
    ) -> KernelSource:
        assert isinstance(program, LoopProgram)
        rows, columns, split = (int(setting.get(n, 1)) for n in ("rows_per_program", "block_size", "split"))
        code = row_code(program, setting, rows, columns)
        context = row_context(code, setting, values, (rows, columns))
        pipeline = f", num_stages={setting['stages']}" if int(setting["stages"]) > 1 else ""
        if split == 1:
            context |= whole_rows(code, access(setting)) | {"stages": pipeline}
            return row_source("triton_row_looped.py.j2", code, values, context)
        context |= workspaces(program, [totals(code)], split) | {"pipeline": pipeline}
        context["stages_of"] = shared_rows(code, access(setting), context["name"], context["column_extent"])
        return row_source("triton_split_reduction.py.j2", code, values, context)


def whole_code(program: LoopProgram) -> loop.TileCode:
    return tile_code(program, row_printer(True), (True, True))


def scan_instructions(program: LoopProgram, setting: Setting, hints: dict[str, int]) -> float:
    """Of one lane for each element: running totals, and the totals of parts before them."""
    vector = vector_width(program, row_shape(program, hints), hints)
    beside = min(int(setting["num_warps"]), int(setting["block_size"]) // (32 * vector))
    run = SHUFFLE_INSTRUCTIONS + WARP_INSTRUCTIONS * beside
    within = len(scans(program)) * (SCAN_INSTRUCTIONS + run / vector)
    code = whole_code(program)
    before = pass_cost(code, totals(code), bool(setting["exact_math"]), vector) if setting.get("split", 1) != 1 else 0.0
    return within + before


def tiles_of(shape: RowShape, rows: int) -> int:
    """Programs that there are without a split."""
    return -(-shape.outer // rows)


def most_split(program: LoopProgram, hints: dict[str, int]) -> int:
    """Parts that a row can be shared out in, a power of two; 1 where it stays whole."""
    extent = row_shape(program, hints).extent
    if extent < LEAST_SPLIT or nested(whole_code(program)):
        return 1
    # Every part reads the totals of all: together no more than the row.
    return min(MOST_SPLIT, 1 << (isqrt(extent).bit_length() - 1))


def cached(program: LoopProgram, hints: dict[str, int], device: DeviceSheet) -> bool:
    """Whether the second kernel finds in L2 what the first one read."""
    return read_bytes(program, hints) <= CACHE_SHARE * device.l2_bytes


def few_and_long(program: LoopProgram, tile: tuple[int, int], hints: dict[str, int], device: DeviceSheet) -> bool:
    """Whether tiles of (rows, columns) are few and walk for long, so that a second kernel costs less than they lose."""
    shape = row_shape(program, hints)
    few = ENOUGH_PER_SM // (2 if cached(program, hints, device) else 4) * device.sm_count
    return tiles_of(shape, tile[0]) < few and -(-shape.extent // tile[1]) >= LONG_WALK


def split_slots(
    program: LoopProgram, default: tuple[int, int], hints: dict[str, int], device: DeviceSheet
) -> tuple[Slot, ...]:
    """The choice of parts, where there are so few rows that it is one; defaults of (rows a program, parts a row)."""
    most, tiles = most_split(program, hints), tiles_of(row_shape(program, hints), default[0])
    if most == 1 or tiles >= ENOUGH_PER_SM * device.sm_count:
        return ()
    choices = tuple(s for s in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) if s <= most)
    about = "programs a row; a kernel before totals their parts"
    return (Slot(name="split", role="reduction", choices=choices, default=default[1], about=about),)
