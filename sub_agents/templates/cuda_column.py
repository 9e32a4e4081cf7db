"""Reductions along a strided axis: vectors along the contiguous axis, groups of threads along the reduced one."""

from dataclasses import dataclass

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import factors, product
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_access import LOADS, STORES
from .cuda_choices import MOST_UNROLLED, choice_of_width, maths_slots, number, passes_slot, vector_choices
from .cuda_column_text import INNER, OUTER, REDUCED, ColumnText, axis_groups, column_flow, partial_bytes, sizes_now
from .cuda_names import identifier
from .cuda_passes import Pass
from .cuda_render import (
    Host,
    Kernel,
    Values,
    index_type,
    kernel_text,
    launch_arguments,
    parameters,
    render_source,
    stream_text,
    wide_argument,
    width_lines,
)
from .cuda_types import size_text

HELD_REGISTERS = 64
FEW_REGISTERS = 32
"""Held registers a thread that leave room for several blocks on a processor."""
SPLITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Stage:
    """One kernel: merges the passes before, then walks the columns for its own."""

    name: str
    before: tuple[Pass, ...]
    own: tuple[Pass, ...]
    leaves: bool
    """Whether its partial results go to the workspace."""
    finishes: bool


class CudaColumn:
    """Lanes along the contiguous axis; the reduced axis is held in registers where it is short enough."""

    name = "cuda_column"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        if not isinstance(program, LoopProgram) or program.levels == 0 or axis_groups(program) is None:
            return False
        return sizes_now(program, hints)[INNER] >= 4

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        now = sizes_now(program, hints)
        # Vectors are as wide as the contiguous axis allows.
        width = min(choice_of_width(program), now[INNER] & -now[INNER]) if now[INNER] else 1
        first = _default(program, now, width, device)
        about = "threads along the contiguous axis"
        keeps = ("registers", "memory") if column_flow(program, False, False).passes[1:] else ("memory",)
        return (
            Slot(name="num_warps", role="configuration", choices=(2, 4, 8, 16, 32), default=first["num_warps"]),
            Slot(
                name="lanes", role="configuration", choices=(4, 8, 16, 32, 64, 128), default=first["lanes"], about=about
            ),
            Slot(name="vector", role="memory", choices=vector_choices(program), default=first["vector"]),
            Slot(name="load", role="memory", choices=tuple(LOADS), default="streaming"),
            Slot(name="store", role="memory", choices=tuple(STORES), default="cached"),
            Slot(
                name="keep",
                role="memory",
                choices=keeps,
                default="registers" if first["keep"] and len(keeps) > 1 else "memory",
                about="where later passes find the data",
            ),
            Slot(name="unroll", role="compute", choices=(1, 2, 4, 8), default=4, about="rows in flight a thread"),
            *maths_slots(program),
            *passes_slot(program),
            Slot(
                name="split",
                role="reduction",
                choices=SPLITS,
                default=first["split"],
                about="blocks along the reduced axis",
            ),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        threads, lanes, vector = 32 * number(setting, "num_warps"), number(setting, "lanes"), number(setting, "vector")
        now, split = sizes_now(program, hints), number(setting, "split")
        flow = column_flow(program, False, setting["passes"] == "online" and setting["keep"] == "memory")
        if lanes > threads or partial_bytes(flow) * threads * vector > 47 * 1024:
            return False
        if now[REDUCED] * lanes < threads or split * 2 > max(2, now[REDUCED]):
            return False
        if setting["keep"] == "registers":
            room = min(HELD_REGISTERS, 65536 // threads - 32)
            return split == 1 and _held_registers(program, now, threads // lanes, vector) <= room
        return _element_bytes(program) * vector * number(setting, "unroll") <= 48 * 4

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """One read where registers hold the data, else one a pass; short contiguous runs waste memory sectors."""
        assert isinstance(program, LoopProgram)
        now = sizes_now(program, hints)
        kept = setting["keep"] == "registers"
        flow = column_flow(program, False, setting["passes"] == "online" and not kept)
        points = now[OUTER] * now[REDUCED] * now[INNER]
        stored = sum(BYTES[store.dtype] for store in flow.point_stores)
        moved = points * (_element_bytes(program) * (1 if kept else len(flow.passes)) + stored)
        run = number(setting, "lanes") * number(setting, "vector") * max(1, _element_bytes(program))
        tiles = -(-now[INNER] // (number(setting, "lanes") * number(setting, "vector")))
        busy = min(1.0, now[OUTER] * tiles * number(setting, "split") / device.sm_count)
        waste = 1.0 if run >= 128 else 128 / max(1, run) * 0.5 + 0.5
        return 1e3 * moved * waste * 1.03 / (device.copy_bytes_per_s * max(busy, 1e-3))

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        assert isinstance(program, LoopProgram)
        keep = setting["keep"] == "registers"
        flow = column_flow(program, bool(setting["fast_math"]), setting["passes"] == "online" and not keep)
        column = ColumnText(flow, setting, keep)
        stages, split = _stages(column), number(setting, "split")
        numbers = [each.number for each in flow.passes if each.reductions] if split > 1 else []
        used = {n for each in flow.passes for n in flow.needed(flow.targets(each))}
        context = {
            "index_type": index_type(program, setting),
            "most_unrolled": MOST_UNROLLED,
            "partials": [flow.partial(each) for each in flow.passes if each.reductions],
            "parameters": parameters(
                program, flow.space, setting, [f"Partial{n}* __restrict__ workspace{n}" for n in numbers]
            ),
            "threads": 32 * number(setting, "num_warps"),
            "lanes": number(setting, "lanes"),
            "unroll": number(setting, "unroll"),
            "keep": keep,
            "split": split,
            "columns": size_text(flow.space.total(REDUCED)),
            "inner_size": size_text(flow.space.total(INNER)),
            "partial_bytes": partial_bytes(flow),
            "column_lines": column.walks[REDUCED].lines,
            "row_lines": column.pointer_lines(),
            "known": column.known_fields(),
            "prologue": column.prologue(),
            "early": column.streamed(n for n in flow.loads if n in used),
            "stages": [_stage_context(column, stage) for stage in stages],
            **column.row_store_context(),
        }
        cuda = kernel_text("cuda_column.cu.j2", context)
        return render_source(program, cuda, _host(column, stages, numbers), values, setting)


def _element_bytes(program: LoopProgram) -> int:
    flow = column_flow(program, False, False)
    return sum(BYTES[a.dtype] for a in flow.space.loads if a.name in flow.elements and not a.constant(INNER))


def _held_registers(program: LoopProgram, now: dict[str, int], groups: int, vector: int) -> int:
    chunks = -(-now[REDUCED] // groups)
    return max(4, _element_bytes(program)) * vector * chunks // 4


def _default(program: LoopProgram, now: dict[str, int], width: int, device: DeviceSheet) -> dict[str, int]:
    """Registers where the reduced axis fits them with runs of 64 bytes or more; else enough blocks to fill the GPU."""
    lanes_most = next((n for n in (4, 8, 16) if now[INNER] <= n * width), 32)
    passes = len(column_flow(program, False, False).passes)
    least = 128 // (width * max(1, _element_bytes(program)))
    # First where several blocks fit a processor, with runs of 128 bytes; then where one does.
    for most, runs, blocks in ((FEW_REGISTERS, least, (4, 8, 16)), (HELD_REGISTERS, 8, (16,))):
        for lanes in (lanes_most, 16, 8):
            for warps in blocks:
                groups = max(1, warps * 32 // lanes)
                fits = _held_registers(program, now, groups, width) <= min(most, 65536 // (32 * warps) - 32)
                if passes > 1 and min(runs, lanes_most) <= lanes <= lanes_most and fits and groups <= now[REDUCED]:
                    return {"num_warps": warps, "lanes": lanes, "vector": width, "split": 1, "keep": 1}
    warps = next((w for w in (2, 4) if now[REDUCED] * lanes_most <= w * 32 * 4), 8)
    tiles = now[OUTER] * -(-now[INNER] // (lanes_most * width))
    wanted, most = 8 * device.sm_count // max(1, tiles), now[REDUCED] * lanes_most // (warps * 32 * 8)
    split = max(s for s in SPLITS if s == 1 or (s <= wanted and s <= most))
    return {"num_warps": warps, "lanes": lanes_most, "vector": width, "split": split, "keep": 0}


def _stages(column: ColumnText) -> list[Stage]:
    name, passes = identifier(column.flow.program.name), column.flow.passes
    if number(column.setting, "split") == 1:
        return [Stage(name, (), passes, False, True)]
    stages = [
        Stage(f"{name}_pass{each.number}", passes[:i], (each,), bool(each.reductions), not each.reductions)
        for i, each in enumerate(passes)
    ]
    if passes[-1].reductions:
        stages.append(Stage(f"{name}_finish", passes, (), False, True))
    else:
        # Point stores of earlier passes were done there; only the last kernel stores what a row makes once.
        stages[-1] = Stage(stages[-1].name, stages[-1].before, stages[-1].own, False, True)
    return stages


def _stage_context(column: ColumnText, stage: Stage) -> dict[str, object]:
    return {
        "name": stage.name,
        "about": "" if not stage.leaves else "this one leaves partial results",
        "walks": bool(stage.own),
        "before": [
            {"number": each.number, "results": column.results(each)} for each in stage.before if each.reductions
        ],
        "passes": [column.pass_context(each) for each in stage.own],
        "leaves": stage.leaves,
        "finishes": stage.finishes,
    }


def _host(column: ColumnText, stages: list[Stage], numbers: list[int]) -> Host:
    flow, setting = column.flow, column.setting
    program, space = flow.program, flow.space
    name, outer, inner = identifier(program.name), space.total(OUTER), space.total(INNER)
    threads, lanes, split = 32 * number(setting, "num_warps"), number(setting, "lanes"), number(setting, "split")
    kept = product((outer, inner))
    divisors = [str(space.sizes[INNER][-1])] if space.sizes[INNER] else []
    kernels = tuple(Kernel(stage.name) for stage in stages)
    device = f"{identifier(program.reads[0])}.device" if program.reads else '"cuda"'
    room = f"({kept}) * {split * partial_bytes(flow)}"
    workspaces = [f"workspace{n} = torch.empty({room}, dtype=torch.uint8, device={device})" for n in numbers]
    chunks = [f"chunks = max(1, -(-({space.total(REDUCED)}) // {threads // lanes}))"] if column.keep else []
    got = "kernel" if len(kernels) == 1 else ", ".join(kernel.variable for kernel in kernels)
    launches = []
    for kernel, stage in zip(kernels, stages, strict=True):
        called = "kernel" if len(kernels) == 1 else kernel.variable
        blocks = f"tiles * {split}" if stage.own and split > 1 else "tiles"
        launches.append(f"{called}(({blocks},), ({threads},), arguments, stream=stream)")
    return Host(
        macros=("vec", "chunks") if column.keep else ("vec",),
        kernels=kernels,
        skip_if_empty=f"{kept} == 0" if factors(kept)[1] or kept == 0 else "",
        body=(
            *width_lines(space.accesses, INNER, number(setting, "vector"), divisors),
            *chunks,
            *workspaces,
            f"{got} = compile_{name}(vec{', chunks' if column.keep else ''}{wide_argument(program, setting)})",
            f"tiles = ({outer}) * -(-({inner}) // ({lanes} * vec))",
            f"arguments = {launch_arguments(program, setting, [f'workspace{n}.data_ptr()' for n in numbers])}",
            f"stream = {stream_text(program)}",
            *launches,
        ),
        summary="Lanes along the contiguous axis, groups of them along the reduced one.",
    )
