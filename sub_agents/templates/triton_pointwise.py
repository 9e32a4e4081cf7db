"""Fused pointwise kernels: one read of every operand, one write of every result.

The flat tile runs along the contiguous output; the two-dimensional one gives each operand a contiguous side, so that
transposed operands are read in whole sectors and operands that are constant along rows or columns are read once.
"""

from collections.abc import Sequence
from dataclasses import replace

from ...state.device import DeviceSheet
from ...state.program import Load, LoopProgram, MatmulProgram, Statement
from ...state.sizes import Size, product, value
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from . import triton_loop as loop
from .triton_expression import Printer
from .triton_pointwise_cost import PointwiseShape, pointwise_ms
from .triton_pointwise_tile import element_bytes, is_rounded, is_transposed, numel_of, tile_of, trailing_axes
from .triton_printable import printable
from .triton_render import Values, cast_if_wide, host_context, render, specialise_slots, wide_on_host


class TritonPointwise:
    """`LoopProgram` without reduced axes."""

    name = "triton_pointwise"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        return isinstance(program, LoopProgram) and not any(program.reduced) and printable(program)

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        numel = numel_of(program, hints)
        # 16 bytes a thread and tensor for each of 128 threads.
        preferred = 128 * max(1, 16 // element_bytes(program))
        blocks = tuple(b for b in (128, 256, 512, 1024, 2048, 4096, 8192) if b <= max(128, 2 * numel))
        spread = max(1, numel // (2 * device.sm_count))
        block = max((b for b in blocks if b <= min(preferred, max(128, spread))), default=128)
        layouts: tuple[str, ...] = ("flat", "two_sided") if len(program.space) > 1 else ("flat",)
        layout, columns = "flat", min(block, 256)
        if len(layouts) > 1 and is_transposed(program):
            layout, columns, block = "two_sided", 64, min(4096, blocks[-1])
        elif len(layouts) > 1:
            extent = value(product(program.space[a] for a in trailing_axes(program)), hints)
            # Two accesses a thread, where some of them are shared along a row.
            twice = max(b for b in blocks if b <= 2 * block)
            columns = max(16, min(twice, 1 << max(0, extent - 1).bit_length()))
            times = [
                pointwise_ms(program, PointwiseShape(side, twice, columns, 4, not is_rounded(program)), hints, device)
                for side in layouts
            ]
            if times[1] < 0.97 * times[0]:
                layout, block = "two_sided", twice
        widths = tuple(sorted({*(c for c in (16, 32, 64, 128, 256, 512, 1024, 2048) if c <= blocks[-1]), columns}))
        slots = [
            Slot(name="block_size", role="configuration", choices=blocks, default=block, about="elements a program"),
            Slot(name="num_warps", role="configuration", choices=(1, 2, 4, 8, 16), default=8 if block > 2048 else 4),
            Slot(
                name="programs",
                role="compute",
                choices=(0, *(n * device.sm_count for n in (16, 8, 4))),
                default=0,
                about="programs that loop over tiles; 0 for a program a tile",
            ),
            Slot(name="tile", role="memory", choices=layouts, default=layout),
            Slot(name="store_cache", role="memory", choices=("default", "cs"), default="default"),
            Slot(name="load_eviction", role="memory", choices=("default", "evict_first"), default="default"),
            Slot(name="exact_math", role="compute", choices=(True, False), default=not is_rounded(program)),
            Slot(name="stages", role="compute", choices=(1, 2, 3), default=1, about="of a looping program"),
        ]
        if "two_sided" in layouts:
            slots.insert(4, Slot(name="columns", role="memory", choices=widths, default=columns))
        return (*slots, *specialise_slots(program))

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """By traffic and instructions: what is broadcast costs a flat tile index arithmetic for every element."""
        assert isinstance(program, LoopProgram)
        shape = PointwiseShape(
            str(setting["tile"]),
            int(setting["block_size"]),
            int(setting.get("columns", 1)),
            int(setting["num_warps"]),
            bool(setting["exact_math"]),
            int(setting["programs"]),
        )
        return pointwise_ms(program, shape, hints, device)

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        block, threads = int(setting["block_size"]), 32 * int(setting["num_warps"])
        live = len(program.loads) + len(program.stores)
        if block < threads or block // threads * live > 128:
            return False
        if int(setting["stages"]) > 1:
            bytes_staged = int(setting["stages"]) * block * 4 * len(program.loads)
            if not setting["programs"] or bytes_staged > device.shared_bytes_per_block:
                return False
        if setting["tile"] == "flat":
            return True
        return int(setting["columns"]) <= block

    def render(
        self, program: LoopProgram | MatmulProgram, setting: Setting, values: dict[str, tuple[tuple[Size, ...], str]]
    ) -> KernelSource:
        assert isinstance(program, LoopProgram)
        two_sided = setting["tile"] == "two_sided" and len(program.space) > 1
        printer = Printer(unit="[1, 1]" if two_sided else "[1]", exact=bool(setting["exact_math"]))
        block = int(setting["block_size"])
        columns = int(setting["columns"]) if two_sided else 0
        rows = block // columns if two_sided else block
        code = tile_of(program, printer, two_sided, (rows, columns))
        context = host_context(program, values, setting)
        context |= self._context(code, setting, values, (rows, columns))
        context |= {"prelude": printer.prelude()}
        return KernelSource(
            imports=("import torch", *printer.imports()),
            code=render("triton_pointwise.py.j2", context),
            function=context["function"],
            reads=program.reads,
            symbols=loop.symbols(program, values),
        )

    def _context(
        self, code: loop.TileCode, setting: Setting, values: Values, sizes: tuple[int, int]
    ) -> dict[str, object]:
        program, columns = code.program, code.columns
        access = loop.Access(
            load_eviction="" if setting["load_eviction"] == "default" else str(setting["load_eviction"]),
            store_cache="" if setting["store_cache"] == "default" else f".{setting['store_cache']}",
        )
        groups = [side for side in (code.outer, code.rows, columns) if side is not None]
        cast = cast_if_wide(program, groups, values)
        stores = [code.store_name(store) for store in program.stores]
        parts = code.closure([store.name for store in program.stores], frozenset())
        names = [*(part.name for part in parts), *stores]
        lines = [line for side in groups for line in code.index_lines(side, names)]
        body = [*code.lines(parts, access), *(code.store_line(store, access) for store in program.stores)]
        tiled = [code.rows] if columns is None else [code.rows, columns]
        counts = [f"cdiv({loop.size_text(side.extent)}, {size})" for side, size in zip(tiled, sizes, strict=False)]
        whole = "" if code.outer is None else f"{loop.size_text(code.outer.extent)} * "
        return {
            "about": f"Pointwise over {' x '.join(str(size) for size in program.space) or 'one element'}.",
            "cast": cast,
            "wide": wide_on_host(program, values),
            "rows": sizes[0],
            "columns": sizes[1],
            "persistent": bool(setting["programs"]),
            "programs": int(setting["programs"]),
            "stages": int(setting["stages"]),
            "num_warps": int(setting["num_warps"]),
            "body": "\n".join([*self._index_lines(code), *lines, *self._guarded(code, body, parts, access, setting)]),
            "host_tiles": whole + " * ".join(f"triton.{count}" for count in counts),
            "kernel_tiles": whole + " * ".join(f"tl.{count}" for count in counts),
            "may_be_empty": not isinstance(product(program.space), int) or product(program.space) == 0,
        }

    def _guarded(
        self,
        code: loop.TileCode,
        body: list[str],
        parts: Sequence[Load | Statement],
        access: loop.Access,
        setting: Setting,
    ) -> list[str]:
        """The body, and for whole tiles the same without masks: a mask that ends anywhere keeps accesses narrow."""
        if code.columns is not None or not code.row_mask or setting["programs"]:
            return body
        whole = replace(code, row_mask=False)
        plain = [*whole.lines(parts, access), *(whole.store_line(store, access) for store in code.program.stores)]
        return [
            f"if (tile + 1) * TILE <= {loop.size_text(code.rows.extent)}:",
            *(f"    {line}" for line in plain),
            "else:",
            *(f"    {line}" for line in body),
        ]

    def _index_lines(self, code: loop.TileCode) -> list[str]:
        if code.columns is None:
            lines = ["row = tile * TILE + tl.arange(0, TILE)"]
            return [*lines, f"row_ok = row < {loop.size_text(code.rows.extent)}"] if code.row_mask else lines
        across = f"tl.cdiv({loop.size_text(code.columns.extent)}, COLUMNS)"
        down = f"tl.cdiv({loop.size_text(code.rows.extent)}, ROWS)"
        place = f"tile // {across}"
        outer = [] if code.outer is None else [f"outer = {place} // {down}"]
        masks = [(code.row_mask, code.rows), (code.column_mask, code.columns)]
        return [
            *outer,
            f"row = ({place}{f' % {down}' if outer else ''}) * ROWS + tl.arange(0, ROWS)[:, None]",
            f"column = (tile % {across}) * COLUMNS + tl.arange(0, COLUMNS)[None, :]",
            *(f"{side.index}_ok = {side.index} < {loop.size_text(side.extent)}" for masked, side in masks if masked),
        ]
