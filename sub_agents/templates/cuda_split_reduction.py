"""Few rows and long reductions: several blocks a row leave partial results, which the next kernel merges in order."""

from dataclasses import dataclass

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_access import LOADS, STORES
from .cuda_choices import (
    choice_of_width,
    default_unroll,
    maths_slots,
    number,
    passes_slot,
    tile_registers,
    vector_choices,
)
from .cuda_names import identifier
from .cuda_passes import Pass
from .cuda_render import (
    Host,
    Kernel,
    Values,
    kernel_text,
    launch_arguments,
    parameters,
    render_source,
    stream_text,
    wide_argument,
)
from .cuda_row import ROWS, RowText, empty_rows, extents, held_bytes, looped_ms, row_flow
from .cuda_row_tiles import global_fetch, tile_pass
from .cuda_space import narrow

SPLITS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
LEAST_SLICE = 2048
"""Columns below which another block is not worth its partial result."""


@dataclass(frozen=True)
class Stage:
    """One kernel: merges the passes before, then walks the columns for its own pass, if it has one."""

    name: str
    before: tuple[Pass, ...]
    own: Pass | None
    finishes: bool


class CudaSplitReduction:
    """Two-stage reductions without atomics: the same answer every time."""

    name = "cuda_split_reduction"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        if not isinstance(program, LoopProgram) or program.levels == 0:
            return False
        rows, columns = extents(program, hints)
        return columns >= 2 * LEAST_SLICE and rows <= 2048

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        rows, columns = extents(program, hints)
        unroll = default_unroll(program, choice_of_width(program), 48)
        wanted = max(2, 4 * device.sm_count // max(1, rows))
        at_once = _rows_for_cache(program, rows, columns, device)
        wanted = max(wanted, 4 * device.sm_count // (at_once or rows or 1))
        split = max(s for s in SPLITS if s == SPLITS[0] or s <= min(wanted, columns // LEAST_SLICE))
        return (
            Slot(name="num_warps", role="configuration", choices=(4, 8, 16), default=8, about="a block"),
            Slot(
                name="vector",
                role="memory",
                choices=vector_choices(program),
                default=choice_of_width(program),
                about="elements a load",
            ),
            Slot(name="load", role="memory", choices=tuple(LOADS), default="streaming", about="hint of the last pass"),
            Slot(name="store", role="memory", choices=tuple(STORES), default="cached"),
            Slot(
                name="unroll", role="compute", choices=(1, 2, 4, 8), default=unroll, about="vectors in flight a thread"
            ),
            *maths_slots(program),
            *passes_slot(program),
            Slot(name="reverse_last", role="reduction", choices=(True, False), default=True),
            Slot(
                name="rows_at_once",
                role="reduction",
                choices=tuple(sorted({0, 1, 2, 4, 8, at_once})),
                default=at_once,
                about="rows between which kernels alternate, so that later ones find them in the L2 cache; 0: all",
            ),
            Slot(name="split", role="reduction", choices=SPLITS, default=split, about="blocks a row"),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        rows, columns = extents(program, hints)
        split = number(setting, "split")
        return tile_registers(program, setting) <= 48 and split * 256 <= columns and rows * split <= 2**20

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """As the looped kernel with all processors busy, plus a launch a further kernel."""
        assert isinstance(program, LoopProgram)
        rows = extents(program, hints)[0]
        flow = row_flow(program, False, setting.get("passes") == "online")
        idle = min(1.0, rows / device.sm_count)
        busy = min(1.0, rows * number(setting, "split") / device.sm_count)
        rounds = -(-rows // (number(setting, "rows_at_once") or max(1, rows)))
        once = looped_ms(program, setting, hints, device) * max(idle, 1e-3) / busy
        if rounds > 1:
            columns = extents(program, hints)[1]
            again = rows * columns * held_bytes(program) * (len(flow.passes) - 1)
            once -= 0.6e3 * again / device.copy_bytes_per_s
        return once + 0.003 * len(flow.passes) * rounds

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        assert isinstance(program, LoopProgram)
        row = RowText(row_flow(program, bool(setting["fast_math"]), setting["passes"] == "online"), setting)
        stages, threads = _stages(row), 32 * number(setting, "num_warps")
        numbers = [each.number for each in row.flow.passes if each.reductions]
        more = ["int splits", "index_t first_row", *(f"Partial{n}* __restrict__ workspace{n}" for n in numbers)]
        context = {
            **row.context(),
            "parameters": parameters(program, row.flow.space, setting, more),
            "threads": threads,
            "unroll": number(setting, "unroll"),
            "stages": [_stage_context(row, stage) for stage in stages],
        }
        cuda = kernel_text("cuda_split_reduction.cu.j2", context)
        return render_source(program, cuda, _host(row, stages, threads, numbers), values, setting)


def _rows_for_cache(program: LoopProgram, rows: int, columns: int, device: DeviceSheet) -> int:
    """Rows that fit two thirds of the L2 cache, where a later kernel would find the first ones gone; else 0."""
    passes = len(row_flow(program, False, merging=True).passes)
    row_bytes = columns * held_bytes(program)
    at_once = int(device.l2_bytes * 0.67) // max(1, row_bytes)
    if passes < 2 or rows * row_bytes < device.l2_bytes or at_once == 0 or rows > 32 * at_once:
        return 0
    return next(n for n in (8, 4, 2, 1) if n <= at_once)


def _stages(row: RowText) -> list[Stage]:
    """A kernel for every pass; one more where the last pass reduces and its results are still to be stored."""
    name, passes = identifier(row.program.name), row.flow.passes
    stages = []
    for i, each in enumerate(passes):
        last = i == len(passes) - 1 and not each.reductions
        stages.append(Stage(f"{name}_pass{each.number}", passes[:i], each, last))
    if passes[-1].reductions:
        stages.append(Stage(f"{name}_finish", passes, None, True))
    return stages


def _stage_context(row: RowText, stage: Stage) -> dict[str, object]:
    def results(each: Pass) -> dict[str, object]:
        return {"number": each.number, "results": row.results(each, f"part{each.number}")}

    own = tile_pass(row, stage.own, global_fetch(row)) if stage.own else None
    if own and stage.finishes and row.setting["reverse_last"]:
        own["reversed"] = True
    doing = "stores every point" if stage.finishes else "leaves one partial result a block"
    return {
        "name": stage.name,
        "walks": own is not None,
        "about": f"Several blocks a row; {doing}." if own else "Merges what the blocks of a row left.",
        "before": [results(each) for each in stage.before],
        "pass": own,
        "finishes": stage.finishes,
    }


def _host(row: RowText, stages: list[Stage], threads: int, numbers: list[int]) -> Host:
    program, space = row.program, row.flow.space
    name, total, split = identifier(program.name), space.total(ROWS), number(row.setting, "split")
    kernels = tuple(Kernel(stage.name) for stage in stages)
    variables = ", ".join(kernel.variable for kernel in kernels)
    device = f"{identifier(program.reads[0])}.device" if program.reads else '"cuda"'
    spaces = [
        f"workspace{n} = torch.empty(({total}) * {split * _partial_bytes(row, n)}, dtype=torch.uint8, device={device})"
        for n in numbers
    ]
    scalar = {True: "cupy.int32", False: "cupy.int64", None: "index"}[narrow(program)]
    at_once = number(row.setting, "rows_at_once")
    more = [
        f"cupy.int32({split})",
        f"{scalar}({'first' if at_once else 0})",
        *(f"workspace{n}.data_ptr()" for n in numbers),
    ]
    launches = [f"arguments = {launch_arguments(program, row.setting, more)}"]
    for kernel, stage in zip(kernels, stages, strict=True):
        count = "count" if at_once else f"({total})"
        blocks = f"{count} * {split}" if stage.own else count
        launches.append(f"{kernel.variable}(({blocks},), ({threads},), arguments, stream=stream)")
    if at_once:
        launches = [
            f"for first in range(0, {total}, {at_once}):",
            f"    count = min({at_once}, {total} - first)",
            *(f"    {line}" for line in launches),
        ]
    return Host(
        macros=row.macros,
        kernels=kernels,
        skip_if_empty=empty_rows(space),
        body=(
            *row.width_lines(),
            *spaces,
            f"{variables} = compile_{name}({', '.join(row.macros)}{wide_argument(program, row.setting)})",
            f"stream = {stream_text(program)}",
            *launches,
        ),
        summary=f"{split} blocks a row; partial results are merged in a fixed order.",
    )


def _partial_bytes(row: RowText, number_of_pass: int) -> int:
    """A bound on the size of a pass's struct: eight bytes a field."""
    each = next(p for p in row.flow.passes if p.number == number_of_pass)
    fields = sum(2 if s.op in ("reduce_argmax", "reduce_argmin") else 1 for s in each.reductions)
    return 8 * (fields + (each.merge is not None))
