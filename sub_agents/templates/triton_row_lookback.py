"""Long rows in one kernel that reads them from memory once: the second reading comes from L2.

Rows are too long for registers, so their parts are reduced by many programs; the parts of an earlier row are applied
meanwhile, while that row is still in the cache. Partial results are combined in a fixed order: bitwise reproducible.
"""

from dataclasses import replace
from typing import Any

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import Size, product, value
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from . import triton_loop as loop
from .triton_cost import estimated_ms, has_tile_stores, looped_trips
from .triton_passes import Pass, RowSchedule, passes, row_printer, split_stores
from .triton_render import allocation, specialise_slots
from .triton_row import (
    fits_rows,
    index_dtype,
    looped_tile_is_legal,
    merges,
    pass_body,
    pass_init,
    pass_title,
    power_of_two_at_least,
    row_context,
    row_shape,
    row_source,
    store_body,
    tile_code,
)
from .triton_split_reduction import partial_stores, workspaces

LEAST_ROW_BYTES = 2**16
"""Shorter rows stay in registers."""
CACHE_SHARE = 0.6
"""How much of L2 the rows between reducing and applying may take."""
WAITING = 1.6
TASKS_PER_SM = 6
"""Tasks in flight on a multiprocessor: the lag must cover them, or programs wait."""


def _row_bytes(program: LoopProgram, hints: dict[str, int]) -> int:
    shape = row_shape(program, hints)
    writes = len([s for s in program.stores if any(s.strides[a] != 0 for a in loop.reduced_axes(program))])
    return shape.extent * shape.element_bytes * max(1, shape.tiles - writes)


class TritonRowLookback:
    """`LoopProgram` that reduces long contiguous rows in one pass and then writes whole rows."""

    name = "triton_row_lookback"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        if not isinstance(program, LoopProgram) or not fits_rows(program) or not has_tile_stores(program):
            return False
        shape = row_shape(program, hints)
        one_pass = program.levels == 1 or (program.levels == 2 and merges(program))
        return one_pass and not shape.strided and shape.outer > 1 and _row_bytes(program, hints) >= LEAST_ROW_BYTES

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        shape = row_shape(program, hints)
        block = 4096 * 4 // max(4, shape.element_bytes)
        split = power_of_two_at_least(-(-shape.extent // (2 * block)))
        lag = power_of_two_at_least(-(-device.sm_count * TASKS_PER_SM // (2 * split)))
        most = CACHE_SHARE * device.l2_bytes / _row_bytes(program, hints)
        lags = tuple(n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= max(1, most))
        return (
            Slot(name="block_size", role="configuration", choices=(1024, 2048, 4096, 8192), default=block),
            Slot(name="num_warps", role="configuration", choices=(4, 8, 16), default=8),
            Slot(name="keep", role="memory", choices=("evict_last", "default"), default="evict_last"),
            Slot(name="store_cache", role="memory", choices=("cs", "default"), default="cs"),
            Slot(name="exact_math", role="compute", choices=(True, False), default=not shape.rounded),
            *specialise_slots(program),
            Slot(
                name="split",
                role="reduction",
                choices=tuple(n for n in (4, 8, 16, 32, 64, 128, 256, 512, 1024) if split // 4 <= n <= 4 * split),
                default=split,
                about="tasks a row",
            ),
            Slot(
                name="lag",
                role="reduction",
                choices=lags,
                default=min(lag, lags[-1]),
                about="rows between reducing and applying",
            ),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        resident = (int(setting["lag"]) + 1) * _row_bytes(program, hints)
        tile = {**setting, "rows_per_program": 1, "stages": 1}
        return resident <= 0.9 * device.l2_bytes and looped_tile_is_legal(program, tile, hints, device)

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        assert isinstance(program, LoopProgram)
        tasks = value(product(program.space[a] for a in loop.outer_axes(program)), hints) * int(setting["split"])
        trips = replace(looped_trips(program, setting, hints, tasks, launches=2), reads=1.1)
        # Taking tasks, counting and waiting for parts cost more than the second reading that they save.
        return WAITING * estimated_ms(program, trips, hints, device)

    def render(
        self, program: LoopProgram | MatmulProgram, setting: Setting, values: dict[str, tuple[tuple[Size, ...], str]]
    ) -> KernelSource:
        assert isinstance(program, LoopProgram)
        columns, split = int(setting["block_size"]), int(setting["split"])
        extent = product(program.space[a] for a in loop.reduced_axes(program))
        column_mask = not (isinstance(extent, int) and extent > 0 and extent % columns == 0)
        code = tile_code(program, row_printer(bool(setting["exact_math"])), (False, column_mask))
        only = passes(code, True, index_dtype(program))[0].counting()
        context = row_context(code, setting, values, (1, columns))
        context |= workspaces(program, [only], split)
        counters = allocation(program, "counters", ("rows + 1",), "int32").replace("torch.empty", "torch.zeros")
        context["workspaces"] = [*context["workspaces"], counters]
        context["passed"] = self._passed(context)
        context |= {"lag": int(setting["lag"]), "pipeline": ""}
        context["stages_of"] = [
            self._reducing(code, only, setting, context["name"]),
            self._applying(code, only, setting, context["name"]),
        ]
        return row_source("triton_row_lookback.py.j2", code, values, context)

    def _passed(self, context: dict[str, Any]) -> str:
        names = [text.split(":")[0].strip() for text in context["parameters"].split(",")]
        wide = ["WIDE"] if context["wide"] is not None else []
        return ", ".join([*names, context["workspace_parameters"], *wide, "COLUMNS", "SPLIT"])

    def _reducing(self, code: loop.TileCode, only: Pass, setting: Setting, name: str) -> dict[str, Any]:
        stream = loop.Access(load_eviction="" if setting["keep"] == "default" else str(setting["keep"]))
        schedule = RowSchedule(code)
        return {
            "function": f"{name}_reduce",
            "about": f"One part of a row's {pass_title(only)}.",
            "head": self._head(code, schedule, stream),
            "init": pass_init(only),
            "lines": pass_body(code, only, schedule, stream),
            "tail": [*only.count_lines(), *only.fold_lines("_part"), *partial_stores(code, only)],
        }

    def _applying(self, code: loop.TileCode, only: Pass, setting: Setting, name: str) -> dict[str, Any]:
        # Nobody reads these lines a third time.
        stream = loop.Access(
            load_eviction="evict_first",
            store_cache="" if setting["store_cache"] == "default" else f".{setting['store_cache']}",
        )
        schedule = RowSchedule(code)
        head = self._head(code, schedule, stream)
        head += [f'{s.name} = tl.load({s.name}_parts_ptr + partial, cache_modifier=".cg")' for s in only.states]
        head += [*only.fold_lines("_row"), *schedule.resolve(only, "_row")]
        row_stores, _ = split_stores(code)
        tail = [f"    {code.store_line(store, stream)}" for store in row_stores]
        return {
            "function": f"{name}_apply",
            "about": "One part of a row, with the row's results.",
            "head": head,
            "init": [],
            "lines": store_body(code, schedule, stream),
            "tail": ["if part == 0:", *tail] if tail else [],
        }

    def _head(self, code: loop.TileCode, schedule: RowSchedule, stream: loop.Access) -> list[str]:
        return code.row_index_lines() + schedule.row_loads(stream)
