"""What the reduction templates share: a program as rows and columns, tile choices, names for the kernel files."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ...state.candidate import SlotValue
from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import Load, LoopProgram, MatmulProgram
from ...state.sizes import product, value
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from . import triton_loop as loop
from .triton_expression import Printer
from .triton_passes import Pass, RowSchedule, passes, row_printer, split_stores
from .triton_pointwise_tile import element_bytes, is_rounded
from .triton_printable import printable
from .triton_render import Values, cast_if_wide, host_context, render, specialise_slots, wide_on_host


def power_of_two_at_least(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


@dataclass(frozen=True)
class RowShape:
    """A reduction at the hinted sizes: `outer` results over `extent` elements each."""

    outer: int
    extent: int
    inner_contiguous: int
    """Extent of the outer axis that memory is contiguous along; 1 where the reduced axis is the contiguous one."""
    tiles: int
    """Whole tiles that the kernel reads or writes: streamed loads and stores."""
    heavy: int
    """Loads that move about as much as the largest one; the others are broadcast over most of the space."""
    element_bytes: int
    levels: int
    rounded: bool
    """Every floating result is rounded to a half type."""

    @property
    def strided(self) -> bool:
        return self.inner_contiguous > 1


def row_shape(program: LoopProgram, hints: dict[str, int]) -> RowShape:
    """The shape at the hinted sizes."""
    return _row_shape(program, tuple(sorted(hints.items())))


@lru_cache(maxsize=256)
def _row_shape(program: LoopProgram, known: tuple[tuple[str, int], ...]) -> RowShape:
    hints = dict(known)
    outer, reduced = loop.outer_axes(program), loop.reduced_axes(program)
    code = tile_code(program, row_printer(True), (True, True))
    streamed = [load for load in program.loads if all(code.varies[load.name])]
    streamed = streamed or [load for load in program.loads if code.varies[load.name][1]] or list(program.loads)
    # A mask or a scale that is broadcast over most of the space does not say which way memory runs.
    largest = max((_footprint(program, load, hints) for load in streamed), default=0)
    heavy = [load for load in streamed if 2 * _footprint(program, load, hints) >= largest]
    fast_reduced = any(1 in (load.strides[a] for a in reduced if program.space[a] != 1) for load in heavy)
    along = [a for a in outer if any(load.strides[a] == 1 for load in heavy) and program.space[a] != 1]
    contiguous = 1 if fast_reduced or not along else max(value(program.space[a], hints) for a in along)
    if program.tables and (inside := inner_axes(program)):
        # What is read at computed places has no strides: the results say which way memory runs.
        contiguous = value(product(program.space[a] for a in inside), hints)
    stores = [store for store in program.stores if not code.is_row_store(store)]
    return RowShape(
        outer=value(product(program.space[a] for a in outer), hints),
        extent=value(product(program.space[a] for a in reduced), hints),
        inner_contiguous=contiguous,
        tiles=len(streamed) + len(program.tables) + len(stores),
        heavy=len(heavy),
        element_bytes=element_bytes(program),
        levels=program.levels,
        rounded=is_rounded(program),
    )


def _footprint(program: LoopProgram, load: Load, hints: dict[str, int]) -> int:
    """Elements of memory that a load touches."""
    return value(product(n for n, stride in zip(program.space, load.strides, strict=True) if stride != 0), hints)


def read_bytes(program: LoopProgram, hints: dict[str, int]) -> int:
    """Bytes of memory that the loads touch."""
    return sum(_footprint(program, load, hints) * BYTES.get(load.dtype, 1) for load in program.loads)


def fits_rows(program: LoopProgram | MatmulProgram) -> bool:
    return isinstance(program, LoopProgram) and program.levels > 0 and printable(program)


def tile_code(
    program: LoopProgram, printer: Printer, masks: tuple[bool, bool], inner_rows: bool = False
) -> loop.TileCode:
    """Rows and columns of a reduction; with `inner_rows` the rows are the axes inside the last reduced one."""
    outer = loop.outer_axes(program)
    columns = loop.group(program, "column", loop.reduced_axes(program))
    if not inner_rows:
        rows = loop.group(program, "row", outer)
        return loop.TileCode(program, rows, columns, printer, row_mask=masks[0], column_mask=masks[1])
    inside = inner_axes(program)
    return loop.TileCode(
        program,
        loop.group(program, "row", inside),
        columns,
        printer,
        row_mask=masks[0],
        column_mask=masks[1],
        outer=loop.group(program, "outer", (a for a in outer if a not in inside)),
    )


def inner_axes(program: LoopProgram) -> tuple[int, ...]:
    """Outer axes inside the last reduced one: memory is contiguous along them in strided reductions."""
    last = max(loop.reduced_axes(program))
    return tuple(a for a in loop.outer_axes(program) if a > last)


def tile_slots(program: LoopProgram, hints: dict[str, int]) -> tuple[Slot, ...]:
    """How the tile's rows are laid out, where the reduced axes are not the innermost."""
    inner = value(product(program.space[a] for a in inner_axes(program)), hints)
    if not inner_axes(program) or inner == 1:
        return ()
    default = "inner" if inner >= 16 else "flat"
    about = "rows from one run of the innermost axes, or from all outer axes as one"
    return (Slot(name="tile", role="memory", choices=("inner", "flat"), default=default, about=about),)


def row_code(program: LoopProgram, setting: Setting, rows: int, columns: int) -> loop.TileCode:
    """Tile code with masks only where a tile can reach past the end."""
    inner_rows = setting.get("tile", "flat") == "inner"
    along = inner_axes(program) if inner_rows else loop.outer_axes(program)
    length = product(program.space[a] for a in along)
    extent = product(program.space[a] for a in loop.reduced_axes(program))
    # With symbols the host may choose more rows a tile.
    row_mask = not isinstance(extent, int) or (rows > 1 and not (isinstance(length, int) and length % rows == 0))
    column_mask = not (isinstance(extent, int) and extent > 0 and extent % columns == 0)
    return tile_code(program, row_printer(bool(setting["exact_math"])), (row_mask, column_mask), inner_rows)


def merges(program: LoopProgram) -> bool:
    """Whether two of the program's passes can be one."""
    code = tile_code(program, row_printer(True), (True, True))
    return len(passes(code, online=True)) < program.levels


def access(setting: Setting) -> loop.Access:
    return loop.Access(
        load_eviction="" if setting["load_eviction"] == "default" else str(setting["load_eviction"]),
        store_cache="" if setting["store_cache"] == "default" else f".{setting['store_cache']}",
    )


def access_slots(program: LoopProgram, shape: RowShape) -> tuple[Slot, ...]:
    """Slots that every reduction template has."""
    # What is read once need not stay in the cache.
    _, tile_stores = split_stores(tile_code(program, row_printer(True), (True, True)))
    once = program.levels == 1 and not tile_stores
    eviction = "evict_first" if once else "default"
    return (
        Slot(name="load_eviction", role="memory", choices=("default", "evict_first", "evict_last"), default=eviction),
        Slot(name="store_cache", role="memory", choices=("default", "cs"), default="default"),
        Slot(name="exact_math", role="compute", choices=(True, False), default=not shape.rounded),
        *specialise_slots(program),
    )


def index_dtype(program: LoopProgram) -> str:
    """Of an index along the reduced extent. A free extent is taken to stay below 2^31."""
    extent = product(program.space[a] for a in loop.reduced_axes(program))
    return "int64" if isinstance(extent, int) and extent >= loop.INT32_LIMIT else "int32"


def row_context(code: loop.TileCode, setting: Setting, values: Values, sizes: tuple[int, int]) -> dict[str, Any]:
    """Names that the kernel files of all reduction templates use; prelude and imports come last."""
    program, columns = code.program, code.columns
    assert columns is not None
    sides = [side for side in (code.outer, code.rows) if side is not None]
    total = product(side.extent for side in sides)
    space = " x ".join(
        f"{n}{' (reduced)' if flag else ''}" for n, flag in zip(program.space, program.reduced, strict=True)
    )
    return host_context(program, values, setting) | {
        "about": f"{'Running totals' if program.scans else 'Reduction'} over {space}.",
        "wide": wide_on_host(program, values),
        "row_cast": cast_if_wide(program, [*sides, columns], values),
        "column_cast": cast_if_wide(program, [columns], values),
        "row_mask": code.row_mask,
        "column_mask": code.column_mask,
        "row_extent": loop.size_text(code.rows.extent),
        "outer_extent": loop.size_text(code.outer.extent) if code.outer is not None else None,
        "all_rows": loop.size_text(total),
        "column_extent": loop.size_text(columns.extent),
        "rows": sizes[0],
        "columns": sizes[1],
        "num_warps": int(setting["num_warps"]),
        "may_be_empty": not isinstance(total, int) or total == 0,
    }


def row_source(file: str, code: loop.TileCode, values: Values, context: dict[str, Any]) -> KernelSource:
    """A reduction template's source from its kernel file."""
    # The prelude is known when all else is printed.
    context = {**context, "prelude": code.printer.prelude()}
    return KernelSource(
        imports=("import torch", *code.printer.imports()),
        code=render(file, context),
        function=context["function"],
        reads=code.program.reads,
        symbols=loop.symbols(code.program, values),
    )


def rows_default(shape: RowShape, columns: int, device: DeviceSheet, tile_elements: int) -> int:
    """Rows a program: a tile of about `tile_elements`, fewer if that left multiprocessors without work."""
    if shape.strided:
        wanted = max(power_of_two_at_least(min(shape.inner_contiguous, 128)), 128 // max(1, shape.element_bytes))
        wanted = min(wanted, max(1, tile_elements // columns))
    else:
        wanted = max(1, tile_elements // columns)
    busy = max(1, shape.outer // (2 * device.sm_count))
    # Runs of 32 elements: where rows are not aligned, shorter ones waste parts of memory sectors.
    least = 32 if shape.strided else 1
    return max(least, min(power_of_two_at_least(wanted), 1 << (busy.bit_length() - 1)))


def pass_slots(program: LoopProgram) -> tuple[Slot, ...]:
    """Slots of the templates that go over the data in passes."""
    strategies = ("online", "separate") if merges(program) else ("separate",)
    return (
        Slot(name="stages", role="compute", choices=(1, 2, 3, 4), default=1, about="software pipeline of the loops"),
        Slot(name="passes", role="reduction", choices=strategies, default=strategies[0]),
        Slot(name="reverse_last", role="reduction", choices=(True, False), default=True),
    )


def pass_title(each: Pass) -> str:
    """The reductions that a pass completes."""
    return ", ".join(s.name for accumulator in each.accumulators for s in accumulator.statements)


def pass_init(each: Pass) -> list[str]:
    return [state.init for state in each.looped_states]


def pass_body(code: loop.TileCode, each: Pass, schedule: RowSchedule, stream: loop.Access) -> list[str]:
    """Lines of one chunk of a reducing pass: indices, loads, values, merges."""
    assert code.columns is not None
    parts = schedule.elements(each.sources, keep=False)
    lines = code.index_lines(code.columns, [part.name for part in parts])
    lines += code.lines(parts, stream)
    if each.has_deviations:
        lines.append("weight = 1.0 / (chunk + 1)")
    return lines + each.merge_lines()


def run_slots(program: LoopProgram) -> tuple[Slot, ...]:
    """How the last pass goes over the columns, where some loads are constant along runs of them."""
    code = tile_code(program, row_printer(True), (True, True))
    last = loop.reduced_axes(program)[-1]
    _, tile_stores = split_stores(code)
    if not tile_stores or not loop.constant_in_runs(program) or any(store.strides[last] == 0 for store in tile_stores):
        return ()
    about = "in tiles that keep to a run of the innermost reduced axis, or over all reduced axes as one"
    return (Slot(name="apply", role="memory", choices=("runs", "flat"), default="runs", about=about),)


def in_runs(code: loop.TileCode, setting: Setting) -> tuple[loop.TileCode, dict[str, str]]:
    """The tile of the last pass, and the length and number of the runs that it keeps to (empty where it does not)."""
    columns = code.columns
    if setting.get("apply", "flat") != "runs" or columns is None:
        return code, {"runs": "", "run_count": ""}
    length, count = columns.sizes[-1], product(columns.sizes[:-1])
    tiled = replace(code, runs=True, column_mask=True)
    return tiled, {"runs": loop.size_text(length), "run_count": loop.size_text(count)}


def store_body(code: loop.TileCode, schedule: RowSchedule, stream: loop.Access) -> list[str]:
    """Lines of one chunk of the pass that writes whole tiles."""
    assert code.columns is not None
    _, tile_stores = split_stores(code)
    parts = schedule.elements([store.name for store in tile_stores], keep=False)
    names = [*(part.name for part in parts), *map(code.store_name, tile_stores)]
    lines = code.index_lines(code.columns, names)
    lines += code.lines(parts, stream)
    return lines + [code.store_line(store, stream) for store in tile_stores]


def whole_tiles(program: LoopProgram, setting: Mapping[str, SlotValue], shape: RowShape) -> int:
    """Tiles that a step of a loop holds, without what it reads once a run."""
    return shape.tiles - (len(loop.constant_in_runs(program)) if setting.get("apply", "flat") == "runs" else 0)


def looped_tile_is_legal(program: LoopProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet) -> bool:
    """Registers for accumulators and streams, and shared memory for pipelined loads."""
    shape = row_shape(program, hints)
    elements, threads = int(setting["rows_per_program"]) * int(setting["block_size"]), 32 * int(setting["num_warps"])
    # Pairs of reductions that share a pass carry little more than one of them.
    states = 1 + max(1, len([s for s in program.body if s.op.startswith("reduce_")]))
    tiles = whole_tiles(program, setting, shape)
    budget = min(128, device.registers_per_sm // threads - 24)
    if elements * (states + tiles) * max(1, shape.element_bytes // 4) / threads > budget:
        return False
    staged = (int(setting["stages"]) - 1) * elements * shape.element_bytes * tiles
    if staged > device.shared_bytes_per_block // 2:
        return False
    if int(setting["stages"]) > 1 and setting.get("apply", "flat") == "flat" and loop.constant_in_runs(program):
        # Copied ahead element by element: several times as slow as without a pipeline.
        return False
    return elements >= threads or int(setting["num_warps"]) <= 4
