"""Reductions over rows of any length: a block walks the row once a pass, the last time backwards for the cache."""

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
from .cuda_row import ROWS, RowText, empty_rows, extents, looped_ms, row_flow
from .cuda_row_tiles import global_fetch, tile_pass


class CudaRowLooped:
    """One block a row; a maximum and the exponentials below it, or mean and variance, in one pass."""

    name = "cuda_row_looped"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        return isinstance(program, LoopProgram) and program.levels > 0

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        columns = extents(program, hints)[1]
        width = choice_of_width(program)
        unroll = default_unroll(program, width, 48)
        warps = next((w for w in (1, 2, 4, 8, 16) if columns <= w * 32 * width * 4), 16)
        return (
            Slot(name="num_warps", role="configuration", choices=(1, 2, 4, 8, 16, 32), default=warps, about="a row"),
            Slot(name="vector", role="memory", choices=vector_choices(program), default=width, about="elements a load"),
            Slot(name="load", role="memory", choices=tuple(LOADS), default="streaming", about="hint of the last pass"),
            Slot(name="store", role="memory", choices=tuple(STORES), default="cached"),
            Slot(
                name="unroll", role="compute", choices=(1, 2, 4, 8), default=unroll, about="vectors in flight a thread"
            ),
            *maths_slots(program),
            *passes_slot(program),
            Slot(name="reverse_last", role="reduction", choices=(True, False), default=True),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        return tile_registers(program, setting) <= 48

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """Passes that miss the L2 cache are paid at memory speed; few rows leave processors idle."""
        assert isinstance(program, LoopProgram)
        return looped_ms(program, setting, hints, device)

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        assert isinstance(program, LoopProgram)
        row = RowText(row_flow(program, bool(setting["fast_math"]), setting["passes"] == "online"), setting)
        threads = 32 * number(setting, "num_warps")
        passes = [tile_pass(row, each, global_fetch(row)) for each in row.flow.passes]
        if len(passes) > 1 and setting["reverse_last"]:
            passes[-1]["reversed"] = True
        context = {**row.context(), "threads": threads, "unroll": number(setting, "unroll"), "passes": passes}
        cuda = kernel_text("cuda_row_looped.cu.j2", context)
        return render_source(program, cuda, _host(row, threads), values, setting)


def _host(row: RowText, threads: int) -> Host:
    program, space = row.program, row.flow.space
    name = identifier(program.name)
    return Host(
        macros=row.macros,
        kernels=(Kernel(name),),
        skip_if_empty=empty_rows(space),
        body=(
            *row.width_lines(),
            f"kernel = compile_{name}({', '.join(row.macros)}{wide_argument(program, row.setting)})",
            f"arguments = {launch_arguments(program, row.setting)}",
            f"kernel(({space.total(ROWS)},), ({threads},), arguments, stream={stream_text(program)})",
        ),
        summary="One block walks each row once a pass.",
    )
