"""Reductions that loop over the reduced extent in chunks, in as few passes as the mathematics allows.

Softmax takes two passes instead of three and a variance one instead of two (see `triton_reduction`). The last pass
may run backwards, so that it starts on what the pass before left in the cache.
"""

from typing import Any

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import Size
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from . import triton_loop as loop
from .triton_cost import estimated_ms, looped_trips
from .triton_passes import RowSchedule, passes, split_stores
from .triton_row import (
    access,
    access_slots,
    fits_rows,
    in_runs,
    index_dtype,
    looped_tile_is_legal,
    pass_body,
    pass_init,
    pass_slots,
    pass_title,
    power_of_two_at_least,
    row_code,
    row_context,
    row_shape,
    row_source,
    rows_default,
    run_slots,
    store_body,
    tile_slots,
)


class TritonRowLooped:
    """`LoopProgram` with reduced axes of any extent, symbolic ones included."""

    name = "triton_row_looped"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        return fits_rows(program)

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        shape = row_shape(program, hints)
        longest = power_of_two_at_least(shape.extent)
        tile = 4096 * 4 // max(4, shape.element_bytes)
        # Strided: runs of 128 elements, as many of them as give every thread 16 elements to load.
        block = min(longest, 32 if shape.strided else tile)
        rows = rows_default(shape, block, device, tile)
        blocks = tuple(b for b in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192) if b <= longest) or (1,)
        if not shape.strided and len(blocks) > 4:
            blocks = tuple(b for b in blocks if b >= min(128, longest))
        chosen = sorted({*(r for r in (1, 2, 4, 8, 16, 32, 64, 128, 256) if r <= max(1, 4 * shape.outer)), rows})
        warps = max(1, min(16, power_of_two_at_least(rows * block // 256)))
        if shape.outer <= device.sm_count and not shape.strided:
            # A row has a multiprocessor to itself: all the loads that it can have under way come from one program.
            warps = max(1, min(32, power_of_two_at_least(rows * block // 128)))
        return (
            Slot(
                name="block_size",
                role="configuration",
                choices=tuple(sorted({*blocks, block})),
                default=block,
                about="elements of the reduced extent a chunk",
            ),
            Slot(name="rows_per_program", role="configuration", choices=tuple(chosen), default=rows),
            Slot(name="num_warps", role="configuration", choices=(1, 2, 4, 8, 16, 32), default=warps),
            *tile_slots(program, hints),
            *access_slots(program, shape),
            *pass_slots(program),
            *run_slots(program),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        if setting.get("apply", "flat") == "runs" and int(setting["stages"]) > 1:
            # Runs start anywhere: what is copied ahead comes element by element where their length is odd.
            return False
        return looped_tile_is_legal(program, setting, hints, device)

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        assert isinstance(program, LoopProgram)
        programs = -(-row_shape(program, hints).outer // int(setting["rows_per_program"]))
        return estimated_ms(program, looped_trips(program, setting, hints, programs), hints, device)

    def render(
        self, program: LoopProgram | MatmulProgram, setting: Setting, values: dict[str, tuple[tuple[Size, ...], str]]
    ) -> KernelSource:
        assert isinstance(program, LoopProgram)
        rows, columns = int(setting["rows_per_program"]), int(setting["block_size"])
        code = row_code(program, setting, rows, columns)
        context = row_context(code, setting, values, (rows, columns))
        context |= self._parts(code, setting, index_dtype(program))
        context["stages"] = f", num_stages={setting['stages']}" if int(setting["stages"]) > 1 else ""
        return row_source("triton_row_looped.py.j2", code, values, context)

    def _parts(self, code: loop.TileCode, setting: Setting, index: str) -> dict[str, Any]:
        stream, schedule = access(setting), RowSchedule(code)
        row_stores, tile_stores = split_stores(code)
        head = code.row_index_lines()
        head += schedule.row_loads(stream)
        rendered = []
        for each in passes(code, setting["passes"] == "online", index):
            body = pass_body(code, each, schedule, stream)
            after = [*each.count_lines(), *each.fold_lines("_row"), *schedule.resolve(each, "_row")]
            rendered.append(
                {
                    "about": f"Reduce {pass_title(each)}",
                    "init": pass_init(each),
                    "lines": body,
                    "after": after,
                    "reverse": False,
                    "runs": "",
                }
            )
        if tile_stores:
            rendered.append(self._apply(code, setting, schedule, stream))
        tail = [code.store_line(store, stream) for store in row_stores]
        return {"head": head, "passes": rendered, "tail": tail}

    def _apply(
        self, code: loop.TileCode, setting: Setting, schedule: RowSchedule, stream: loop.Access
    ) -> dict[str, Any]:
        """The pass that writes whole tiles."""
        tiled, runs = in_runs(code, setting)
        return {
            "about": "Apply",
            "init": [],
            "lines": store_body(tiled, schedule, stream),
            "after": [],
            "reverse": bool(setting["reverse_last"]),
            **runs,
        }
