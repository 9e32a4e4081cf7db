"""Few long rows: each row is shared out over many programs.

One kernel a pass writes partial states to a workspace; the next combines them, always in the same order, so that the
result is bitwise reproducible. Atomics would save nothing: their output has to be cleared by a kernel of its own.
"""

from typing import Any

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import Size
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from . import triton_loop as loop
from .triton_cost import estimated_ms, looped_trips, work
from .triton_expression import TYPES
from .triton_passes import Pass, RowSchedule, passes, split_stores
from .triton_render import allocation
from .triton_row import (
    access,
    access_slots,
    fits_rows,
    in_runs,
    index_dtype,
    looped_tile_is_legal,
    merges,
    pass_body,
    pass_init,
    pass_slots,
    pass_title,
    power_of_two_at_least,
    row_code,
    row_context,
    row_shape,
    row_source,
    run_slots,
    store_body,
    tile_slots,
)


class TritonSplitReduction:
    """`LoopProgram` with reduced axes of any extent, best where there are fewer rows than multiprocessors."""

    name = "triton_split_reduction"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        return isinstance(program, LoopProgram) and fits_rows(program) and row_shape(program, hints).extent >= 512

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        shape = row_shape(program, hints)
        tile = 2048 * 4 // max(4, shape.element_bytes)
        rows = min(64, power_of_two_at_least(shape.inner_contiguous)) if shape.strided else 1
        block = max(1, min(power_of_two_at_least(shape.extent), tile // rows))
        # Enough programs for eight a multiprocessor, and at least two chunks for each.
        wanted = max(1, 8 * device.sm_count * rows // max(1, shape.outer))
        most = max(1, shape.extent // (2 * block))
        split = max(2, power_of_two_at_least(min(wanted, most, 1024)))
        splits = tuple(sorted({*(s for s in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) if s <= 4 * most), split}))
        return (
            Slot(
                name="block_size",
                role="configuration",
                choices=tuple(sorted({32, 64, 128, 256, 512, 1024, 2048, 4096, block})),
                default=block,
                about="elements of the reduced extent a chunk",
            ),
            Slot(
                name="rows_per_program",
                role="configuration",
                choices=tuple(sorted({rows, *((16, 32, 64, 128) if shape.strided else (1, 2, 4))})),
                default=rows,
            ),
            Slot(name="num_warps", role="configuration", choices=(2, 4, 8, 16), default=4 if tile <= 2048 else 8),
            *tile_slots(program, hints),
            *access_slots(program, shape),
            *pass_slots(program),
            *run_slots(program),
            Slot(name="split", role="reduction", choices=splits, default=split, about="programs a row"),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        return partials_fit(setting) and looped_tile_is_legal(program, setting, hints, device)

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        assert isinstance(program, LoopProgram)
        tiles = -(-row_shape(program, hints).outer // int(setting["rows_per_program"]))
        merged = setting["passes"] == "online" and merges(program)
        launches = program.levels - int(merged) + 1
        trips = looped_trips(program, setting, hints, tiles * int(setting["split"]), launches)
        # A kernel starts over where the one before ended, too late for the cache unless everything fits.
        again = work(program, hints, exact=True, online=True).read_bytes > device.l2_bytes // 2
        late = 1.15 if trips.reads > 1 and again else 1.0
        return late * estimated_ms(program, trips, hints, device)

    def render(
        self, program: LoopProgram | MatmulProgram, setting: Setting, values: dict[str, tuple[tuple[Size, ...], str]]
    ) -> KernelSource:
        assert isinstance(program, LoopProgram)
        rows, columns = int(setting["rows_per_program"]), int(setting["block_size"])
        code = row_code(program, setting, rows, columns)
        made = [each.counting() for each in passes(code, setting["passes"] == "online", index_dtype(program))]
        context = row_context(code, setting, values, (rows, columns))
        context["stages_of"] = self._stages(code, made, setting, context["name"])
        context |= workspaces(program, made, int(setting["split"]))
        context["pipeline"] = f", num_stages={setting['stages']}" if int(setting["stages"]) > 1 else ""
        return row_source("triton_split_reduction.py.j2", code, values, context)

    def _stages(self, code: loop.TileCode, made: list[Pass], setting: Setting, name: str) -> list[dict[str, Any]]:
        """The kernels in order: one a pass, then one that applies or only combines."""
        stream = access(setting)
        stages = []
        for number, each in enumerate(made):
            schedule = RowSchedule(code)
            head = self._combined(code, made[:number], schedule, stream)
            stages.append(
                {
                    "kernel": f"{name}_part{number}_kernel",
                    "about": f"Parts of {pass_title(each)}.",
                    "loops": True,
                    "reverse": False,
                    "backwards": False,
                    "runs": "",
                    "head": head,
                    "init": pass_init(each),
                    "lines": pass_body(code, each, schedule, stream),
                    "tail": [*each.count_lines(), *each.fold_lines("_part"), *partial_stores(code, each)],
                }
            )
        return [*stages, self._last(code, made, setting, name)]

    def _last(self, code: loop.TileCode, made: list[Pass], setting: Setting, name: str) -> dict[str, Any]:
        stream, schedule = access(setting), RowSchedule(code)
        row_stores, tile_stores = split_stores(code)
        tail = [code.store_line(store, stream) for store in row_stores]
        if tile_stores and tail:
            tail = ["if part == 0:", *(f"    {line}" for line in tail)]
        head = self._combined(code, made, schedule, stream)
        tiled, runs = in_runs(code, setting)
        reverse = bool(setting["reverse_last"]) and bool(tile_stores)
        return {
            "kernel": f"{name}_last_kernel",
            "about": "Combines the parts" + (" and applies the result." if tile_stores else "."),
            "loops": bool(tile_stores),
            "reverse": reverse,
            "backwards": reverse,
            **runs,
            "head": head,
            "init": [],
            "lines": store_body(tiled, schedule, stream) if tile_stores else [],
            "tail": tail,
        }

    def _combined(self, code: loop.TileCode, made: list[Pass], schedule: RowSchedule, stream: loop.Access) -> list[str]:
        """Row-level code up to and with the results of finished passes, from their parts."""
        lines = code.row_index_lines()
        lines += schedule.row_loads(stream)
        mask = ", mask=row_ok, other=0" if code.row_mask else ""
        for each in made:
            lines += [f"{s.name} = tl.load({s.name}_parts_ptr + partial{mask})" for s in each.states]
            lines += [*each.fold_lines("_row"), *schedule.resolve(each, "_row")]
        return lines


def partials_fit(setting: Setting) -> bool:
    """Whether a program can hold the partial states of its rows: 64 a thread at most."""
    return int(setting["split"]) * int(setting["rows_per_program"]) <= 64 * 32 * int(setting["num_warps"])


def partial_stores(code: loop.TileCode, each: Pass) -> list[str]:
    mask = ", mask=row_ok" if code.row_mask else ""
    return [f"tl.store({s.name}_parts_ptr + slot + part, {s.name}_part{mask})" for s in each.states]


def workspaces(program: LoopProgram, made: list[Pass], split: int) -> dict[str, Any]:
    """Names and allocations of the partial states, (rows, split) each."""
    states = [state for each in made for state in each.states]
    return {
        "workspace_parameters": ", ".join(f"{state.name}_parts_ptr" for state in states),
        "workspace_names": ", ".join(f"{state.name}_parts" for state in states),
        "workspaces": [
            allocation(program, f"{state.name}_parts", ("rows", split), TYPES[state.dtype].removeprefix("tl."))
            for state in states
        ],
        "split": split,
    }
