"""Convolution of each channel by itself with a fused epilogue in CUDA C++.

A block holds a tile of one channel in shared memory, padding included. A thread sums a strip of places that lie one
above the other: of each column of its windows it reads what all of them need once.
"""

from math import ceil
from typing import Any

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import value
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .convolution_shape import Shape
from .cuda_expression import read
from .cuda_matmul_source import Epilogue, Host, Kernel, cuda_source, epilogue, rendered
from .cuda_types import STORAGE
from .matmul_program import epilogue_bytes_moved, epilogue_steps, extent, fold, symbols, tiled_dtype
from .triton_matmul_source import Values, terms, wide_when, written_out

MOST_SHARED_BYTES = 48 * 1024
"""Without asking for more; a tile and the weights share it."""
MOST_UNROLLED = 3000
"""Multiplications up to which a strip's are written out."""


class CudaDepthwise:
    """One tile of one channel a block."""

    name = "cuda_depthwise"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """Windows of one channel and of one or two dimensions, factors of one dtype."""
        if not isinstance(program, MatmulProgram) or program.b.windows is None or program.also is not None:
            return False
        windows = program.b.windows
        return tiled_dtype(fold(program)) is not None and windows.channels == 1 and len(windows.axes) <= 2

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, MatmulProgram)
        flat = program.b.windows is not None and len(program.b.windows.axes) == 1
        strips = (1,) if flat else (1, 2, 4, 7, 8, 14, 16)
        usual = {"most_rows": 1 if flat else 64, "most_columns": 256 if flat else 64, "warps": 8}
        possible = [strip for strip in strips if self.legal(program, {**usual, "strip": strip}, hints, device)]
        best = min(
            possible or strips[:1],
            key=lambda strip: self.estimated_ms(program, {**usual, "strip": strip}, hints, device),
        )
        rows = (1,) if flat else (16, 32, 64)
        return (
            Slot(name="strip", role="compute", choices=strips, default=best, about="places that a thread sums"),
            Slot(name="most_rows", role="memory", choices=rows, default=usual["most_rows"]),
            Slot(name="most_columns", role="memory", choices=(32, 64, 128, 256), default=usual["most_columns"]),
            Slot(name="warps", role="configuration", choices=(2, 4, 8), default=usual["warps"]),
        )

    def legal(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        hints: dict[str, int],
        device: DeviceSheet,
    ) -> bool:
        """The largest tile and the weights fit shared memory, and a strip's windows fit registers."""
        assert isinstance(program, MatmulProgram)
        shape, strip = Shape.of(fold(program)), int(setting["strip"])
        span = (strip - 1) * shape.axes[0].stride + (shape.axes[0].taps - 1) * shape.axes[0].dilation + 1
        return _shared_bytes(shape, setting) <= MOST_SHARED_BYTES and span + strip <= 96

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """Multiplications at half of their rate, reads of shared memory at theirs, and the bytes that are moved."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        shape, sizes, strip = Shape.of(folded), extent(folded, hints), int(setting["strip"])
        first, second = shape.axes
        span = (strip - 1) * first.stride + (first.taps - 1) * first.dilation + 1
        height, most_rows = max(1, value(shape.outputs[0], hints)), _tile(setting)[0]
        tiles = ceil(height / most_rows)
        # Places below the last row of a tile are summed like all others of their strip.
        summed = tiles * ceil(ceil(height / tiles) / strip) * strip / height
        results = sizes.batch * sizes.m * sizes.n * summed
        clocks = (2 * sizes.k + epilogue_steps(folded)) / 128 + second.taps * (span + first.taps) / strip / 32
        compute_s = results * clocks / device.sm_count / 1.75e9
        read_bytes = sizes.batch * sizes.m * value(shape.elements, hints) * (16 // shape.pack)
        moved_s = (epilogue_bytes_moved(folded, hints) + read_bytes) / (0.8 * device.copy_bytes_per_s)
        return 1e3 * (max(compute_s, moved_s) + 0.3 * min(compute_s, moved_s)) + 0.003

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        shape, around = Shape.of(folded), epilogue(folded)
        cuda = rendered("cuda_depthwise.cu.j2", _context(folded, shape, setting, around))
        return cuda_source(folded, cuda, _host(folded, shape, setting, around), values, around)


def _tile(setting: Setting) -> tuple[int, int]:
    """The most rows, in whole strips, and columns of a tile."""
    strip = int(setting["strip"])
    return -(-int(setting["most_rows"]) // strip) * strip, int(setting["most_columns"])


def _shared_bytes(shape: Shape, setting: Setting) -> int:
    sides = [
        (size - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1
        for size, axis in zip(_tile(setting), shape.axes, strict=True)
    ]
    return 4 * (sides[0] * sides[1] + shape.axes[0].taps * shape.axes[1].taps)


def _context(program: MatmulProgram, shape: Shape, setting: Setting, around: Epilogue) -> dict[str, Any]:
    pointer, weights = (around.pointer_of[each.value] for each in (program.b, program.a))
    batch = [f"batch_{axis}" for axis in range(len(program.batch))]
    offsets = terms(program.b.strides[:-2], batch, program.b.offset)
    depths = terms(program.a.strides, (*batch, "row", "depth"), program.a.offset)
    operands = dict.fromkeys([around.pointers[pointer], around.pointers[weights]])
    later = [around.pointers[name] for name in around.later if name not in (pointer, weights)]
    free = [f"index_t {name}" for name in symbols(program)]
    kind = program.b.dtype
    strip, taps = int(setting["strip"]), shape.axes[0].taps * shape.axes[1].taps
    return {
        "name": program.name,
        "threads": 32 * int(setting["warps"]),
        "strip": strip,
        "looped": strip * taps > MOST_UNROLLED,
        **shape.constants(),
        "type": STORAGE[kind],
        "m": written_out(program.m),
        "source": f"{pointer} + {offsets}" if offsets else pointer,
        "weight": read(kind, f"{weights}[{depths or 0}]"),
        "read": read(kind, f"source[(index_t)at * {shape.walks[0]} + (index_t)(start_1 + x) * {shape.walks[1]}]"),
        "kernel_parameters": ", ".join([*operands, *later, "int tile_rows", "int tile_columns", *free]),
        **around.indexed(),
    }


def _host(program: MatmulProgram, shape: Shape, setting: Setting, around: Epilogue) -> Host:
    m, batch, name = written_out(program.m), around.batch_count, program.name
    height, width = (written_out(each) for each in shape.outputs)
    most_rows, most_columns = _tile(setting)
    strip, threads, (first, second) = int(setting["strip"]), 32 * int(setting["warps"]), shape.axes
    pointer, weights = (around.pointer_of[each.value] for each in (program.b, program.a))
    pointers = dict.fromkeys([pointer, weights, *around.later])
    free = [f"index({each})" for each in symbols(program)]
    passed = [*(f"{each}.data_ptr()" for each in pointers), "cupy.int32(rows)", "cupy.int32(columns)", *free]
    rows_held = f"((rows - 1) * {first.stride} + {(first.taps - 1) * first.dilation + 1})"
    pitch = f"((columns - 1) * {second.stride} + {(second.taps - 1) * second.dilation + 1})"
    lines = [
        f"wide = int({wide_when(program)})",
        "index = cupy.int64 if wide else cupy.int32",
        f"stream = stream_of_{name}(torch.cuda.current_stream().cuda_stream)",
        f"kernel = compile_{name}(1, wide)",
        "# Tiles of even size, in whole strips of rows.",
        f"rows = -(-{height} // -(-{height} // {most_rows}))",
        f"rows = -(-rows // {strip}) * {strip}",
        f"columns = -(-{width} // -(-{width} // {most_columns}))",
        f"grid = -(-{height} // rows) * -(-{width} // columns) * {m} * {batch}",
        f"shared = 4 * {rows_held} * {pitch}",
        f"kernel((grid,), ({threads},), ({', '.join(passed)},), shared_mem=shared, stream=stream)",
    ]
    return Host(
        macros=("out_vec", "wide"),
        kernels=(Kernel(f"{name}_kernel"),),
        body=tuple(lines),
        summary="Convolution of each channel by itself, with its epilogue.",
        skip_if_empty=f"{m} * {height} * {width} * {batch} == 0",
    )
