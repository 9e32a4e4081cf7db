"""Reductions whose rows fit the registers of a warp or a block: one read and one write."""

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_access import LOADS, STORES, vector_of
from .cuda_choices import MOST_UNROLLED, maths_slots, moved_bytes, narrowest_bytes, number, vector_choices
from .cuda_names import identifier
from .cuda_passes import Pass
from .cuda_render import (
    Host,
    Kernel,
    Values,
    kernel_text,
    launch_arguments,
    render_source,
    stream_text,
    wide_argument,
)
from .cuda_row import COLUMNS, ROWS, RowText, columns_contiguous, empty_rows, extents, held_bytes, row_flow, streamed
from .cuda_types import compute_type

REGISTERS_FOR_ROW = 96
"""Most 32-bit registers a thread spends on its part of the row."""


class CudaRowBlock:
    """One warp or block a row, or several short rows a block; the row is held in registers."""

    name = "cuda_row_block"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        if not isinstance(program, LoopProgram) or program.levels == 0 or not columns_contiguous(program):
            return False
        return extents(program, hints)[1] * max(4, held_bytes(program)) <= 1024 * REGISTERS_FOR_ROW * 4

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        widths = vector_choices(program)
        width = next((w for w in reversed(widths) if w * narrowest_bytes(program) <= 16), 1)
        warps, rows = _default_shape(program, hints, width)
        return (
            Slot(name="num_warps", role="configuration", choices=(1, 2, 4, 8, 16, 32), default=warps, about="a block"),
            Slot(
                name="rows_per_program",
                role="configuration",
                choices=(1, 2, 4, 8, 16, 32),
                default=rows,
                about="rows a block",
            ),
            Slot(name="vector", role="memory", choices=widths, default=width, about="elements a load"),
            Slot(
                name="load",
                role="memory",
                choices=tuple(LOADS),
                default="streaming",
                about="cache hint of streamed loads",
            ),
            Slot(name="store", role="memory", choices=tuple(STORES), default="cached"),
            *maths_slots(program),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        threads, rows = 32 * number(setting, "num_warps"), number(setting, "rows_per_program")
        if threads < rows:
            return False
        per_row, columns = threads // rows, extents(program, hints)[1]
        held = _chunks(columns, per_row, number(setting, "vector")) * number(setting, "vector")
        spent = held * max(4, held_bytes(program)) // 4
        # A block of 1024 threads has 64 registers a thread in all.
        return spent <= min(REGISTERS_FOR_ROW, 65536 // threads - 24) and (held == 1 or columns * 4 > per_row)

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """One read and one write; blocks of many registers leave a processor little else to do at barriers."""
        assert isinstance(program, LoopProgram)
        rows, columns = extents(program, hints)
        threads, in_block = 32 * number(setting, "num_warps"), number(setting, "rows_per_program")
        held = _chunks(columns, threads // in_block, number(setting, "vector")) * number(setting, "vector")
        resident = 65536 // (threads * (held * max(4, held_bytes(program)) // 4 + 28))
        waiting = {0: 1.6, 1: 1.25}.get(resident, 1.02)
        busy = min(1.0, rows / (in_block * device.sm_count))
        total = sum(moved_bytes(program, hints).values())
        return 1e3 * total * waiting / (device.copy_bytes_per_s * max(busy, 1e-3))

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        assert isinstance(program, LoopProgram)
        text = RowText(row_flow(program, bool(setting["fast_math"]), merging=False), setting)
        threads, rows = 32 * number(setting, "num_warps"), number(setting, "rows_per_program")
        context = {
            **text.context(),
            "may_shift": bool(text.leads),
            "threads": threads,
            "threads_per_row": threads // rows,
            "rows_per_block": rows,
            "most_unrolled": MOST_UNROLLED,
            "loads": [_load(text, name) for name in _early(text)],
            "kept": [
                {"type": compute_type(text.flow.printer.dtypes[name]), "name": text.flow.printer.name(name)}
                for name in sorted(text.flow.kept)
            ],
            "passes": [_pass(text, each) for each in text.flow.passes],
        }
        cuda = kernel_text("cuda_row_block.cu.j2", context)
        return render_source(program, cuda, _host(text, threads, rows), values, setting)


def _default_shape(program: LoopProgram, hints: dict[str, int], width: int) -> tuple[int, int]:
    """Warps a block and rows a block: about 16 to 32 elements a thread, whole warps a row where it is long enough."""
    columns = extents(program, hints)[1]
    share = max(4, 64 // max(1, held_bytes(program)))
    per_row = 1
    while per_row < 1024 and columns > per_row * width and (per_row < 32 or columns > per_row * share):
        per_row *= 2
    if per_row >= 128:
        return per_row // 32, 1
    return 4, 128 // per_row if per_row >= 4 else 32


def _chunks(columns: int, per_row: int, vector: int) -> int:
    return max(1, -(-columns // (per_row * vector)))


def _first_use(text: RowText, name: str) -> int:
    return next((p.number for p in text.flow.passes if name in _used(text, p)), -1)


def _used(text: RowText, each: Pass) -> list[str]:
    known = frozenset(n for n in text.flow.kept if text.flow.levels[n] < each.number)
    return text.flow.needed(text.flow.targets(each), known)


def _early(text: RowText) -> list[str]:
    """Loads held in registers from the start: all but row-independent ones that only later passes use."""
    found = []
    for load in text.flow.space.loads:
        first = _first_use(text, load.name)
        if load.name in text.flow.elements and first >= 0 and (first == 0 or streamed(load)):
            found.append(load.name)
    return found


def _load(text: RowText, name: str) -> dict[str, str]:
    load = text.flow.loads[name]
    return {"name": text.flow.printer.name(name), "vector": vector_of(load), "fetch": text.fetch(load)}


def _pass(text: RowText, each: Pass) -> dict[str, object]:
    early, kept = _early(text), text.flow.kept
    used = _used(text, each)

    def held(name: str) -> str | None:
        printed = text.flow.printer.name(name)
        if name in text.flow.loads:
            return text.raw(text.flow.loads[name], f"{printed}_at[chunk]" if name in early else f"{printed}_now")
        if name in kept and text.flow.levels[name] < each.number:
            return f"{printed}_at[chunk][j]"
        return text.position(name)

    declarations, filling, stores = text.outputs(each)
    keeping = [
        f"{text.flow.printer.name(n)}_at[chunk][j] = {text.flow.printer.name(n)};"
        for n in used
        if n in kept and held(n) is None
    ]
    body = text.flow.declarations(text.flow.targets(each), held)
    return {
        "number": each.number,
        "reductions": bool(each.reductions),
        "late": [_load(text, n) for n in used if n in text.flow.loads and n not in early],
        "outputs": declarations,
        "body": text.body(body + keeping + text.accumulation(each, f"part{each.number}") + filling),
        "stores": stores,
        "results": text.results(each, f"part{each.number}"),
    }


def _host(text: RowText, threads: int, rows: int) -> Host:
    program, space = text.program, text.flow.space
    name, total, columns = identifier(program.name), space.total(ROWS), space.total(COLUMNS)
    per_row = threads // rows
    reach = "(columns + shifted * (vec - 1))" if text.leads else "columns"
    return Host(
        macros=(*text.macros, "chunks", "even"),
        kernels=(Kernel(name),),
        skip_if_empty=empty_rows(space),
        body=(
            *text.width_lines(),
            f"columns = {columns}",
            f"chunks = max(1, -(-{reach} // ({per_row} * vec)))",
            f"even = int({reach} == chunks * {per_row} * vec)",
            f"kernel = compile_{name}({', '.join(text.macros)}, chunks, even{wide_argument(program, text.setting)})",
            f"arguments = {launch_arguments(program, text.setting)}",
            f"blocks = -(-({total}) // {rows})",
            f"kernel((blocks,), ({threads},), arguments, stream={stream_text(program)})",
        ),
        summary="One read and one write of each row, which lies in registers between the passes.",
    )
