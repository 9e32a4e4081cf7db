"""Convolution with a fused epilogue in CUDA C++ on Hopper's warpgroup instructions (`wgmma`, sm_90a only).

A block holds the input places that its windows read in shared memory, as words of 16 bytes of channels, one place
behind the other: the factor of each tap is then the same memory, read from another place on. So every input element is
fetched once a block and not once a tap, and no copy of the windows is made. Rows of places keep a gap as wide as a
window reaches, whose sums are nobody's. Weights are packed by a first kernel and come step by step.

float32 factors are rounded to TF32, as PyTorch's own convolutions are computed unless told not to.
"""

from math import gcd
from typing import Any

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import value
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from . import convolution_tile as tiles
from .convolution_shape import Shape
from .cuda_matmul_source import Epilogue, Host, Kernel, cuda_source, epilogue, rendered
from .cuda_types import STORAGE
from .matmul_program import epilogue_bytes_moved, epilogue_steps, extent, fold, symbols, tiled_dtype
from .triton_matmul_source import Values, multiple_of, terms, wide_when, written_out

MOST_SHARED_BYTES = 227 * 1024
"""Of a block; a multiprocessor has a kilobyte more, and the system keeps one of each block."""
LEAST_COLUMNS = 4
FETCHED_A_CLOCK = {False: 4.0, True: 6.0}
"""Elements that a multiprocessor brings into shared memory a clock, one by one and in pairs."""
STORED_A_CLOCK, BEGUN_CLOCKS = 6.0, 3500
"""Elements that it brings out of it; what a block takes besides."""
MULTIPLIED_A_CLOCK = {4: 1024, 8: 2048}
"""Products of TF32 and of halves that tensor cores of a multiprocessor add up, by channels in 16 bytes."""
OVERLAPPED = {1: 1.0, 2: 0.8, 3: 0.8}
"""What blocks on one multiprocessor take of the time that they would take one after the other."""
KINDS = {"float32": "tf32", "float16": "f16", "bfloat16": "bf16"}


class CudaConvolution:
    """One tile of channels and places a block; two blocks on a multiprocessor fetch and multiply in turn."""

    name = "cuda_convolution"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """Windows of one to three dimensions, all images with the same weights, factors of one dtype."""
        if not isinstance(program, MatmulProgram) or program.b.windows is None or program.also is not None:
            return False
        folded = fold(program)
        return (
            tiled_dtype(folded) is not None
            and len(program.b.windows.axes) <= 3
            and not any(folded.a.strides[:-2])
            and folded.a.value != folded.b.value
        )

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, MatmulProgram)
        shape = Shape.of(fold(program))
        words = shape.words()
        best = min(
            (each for each in _settings(words) if self.legal(program, each, hints, device)),
            key=lambda each: self.estimated_ms(program, each, hints, device),
            default=_settings(words)[0],
        )
        about = "words of 16 bytes of channels that are multiplied before the next are fetched"
        return (
            Slot(name="tile_channels", role="configuration", choices=(64, 128, 192), default=best["tile_channels"]),
            Slot(name="tile_places", role="configuration", choices=(64, 128, 192, 256), default=best["tile_places"]),
            Slot(name="warps", role="configuration", choices=(4, 8, 12), default=best["warps"]),
            Slot(name="weight_stages", role="compute", choices=(3, 4, 5, 6), default=4, about="of the weights' copies"),
            Slot(
                name="residents",
                role="configuration",
                choices=(1, 2, 3),
                default=best["residents"],
                about="blocks that a multiprocessor is to hold",
            ),
            Slot(name="words", role="memory", choices=words, default=best["words"], about=about),
        )

    def legal(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        hints: dict[str, int],
        device: DeviceSheet,
    ) -> bool:
        """Warpgroups share rows of 64 and columns, sums fit registers, the narrowest tile fits shared memory, sm_90."""
        assert isinstance(program, MatmulProgram)
        tile_m, tile_n, warps = int(setting["tile_channels"]), int(setting["tile_places"]), int(setting["warps"])
        groups, groups_m = warps // 4, tile_m // 64
        if device.arch != "sm_90" or groups % groups_m or tile_n % (8 * groups // groups_m):
            return False
        sums, residents = tile_m * tile_n // (32 * warps), int(setting["residents"])
        if not 16 <= sums <= 128 or sums + 48 > 65536 // (residents * 32 * warps):
            return False
        shape, sizes = Shape.of(fold(program)), extent(fold(program), hints)
        if tile_m > 64 and tile_m >= 2 * sizes.m:
            return False
        # Any width has to find a tile, down to this many columns.
        places = tile_n + shape.reaches[0] * (LEAST_COLUMNS + shape.reaches[1]) + shape.reaches[1]
        held_bytes = shape.place_bytes(setting) * places + _other_bytes(setting)
        return max(held_bytes, _staged_bytes(setting)) <= _most_bytes(setting)

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """By what a block took on an H200: clocks to fetch, to multiply, to store, and to begin."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        shape, sizes = Shape.of(folded), extent(folded, hints)
        height, width = (max(1, value(each, hints)) for each in shape.outputs)
        *_, places, _, blocks = tiles.convolution_tile(height, width, *_tile_arguments(shape, setting))
        results = int(setting["tile_channels"]) * int(setting["tile_places"])
        channels = shape.blocks(setting) * int(setting["words"]) * shape.pack
        clocks = places * shape.planes * channels * shape.deep.taps / FETCHED_A_CLOCK[shape.pairs]
        clocks += results * channels * shape.taps / (0.8 * MULTIPLIED_A_CLOCK[shape.pack])
        clocks += results / STORED_A_CLOCK + results * epilogue_steps(folded) / 128
        residents = int(setting["residents"])
        clocks = OVERLAPPED[residents] * (clocks + BEGUN_CLOCKS)
        count = sizes.batch * -(-sizes.m // int(setting["tile_channels"])) * blocks * value(shape.deep.places, hints)
        compute_s = max(1.0, count / device.sm_count) * clocks / 1.75e9
        read_bytes = sizes.batch * value(shape.elements, hints) * shape.channels * (16 // shape.pack)
        moved_s = (epilogue_bytes_moved(folded, hints) + read_bytes) / (0.8 * device.copy_bytes_per_s)
        return 1e3 * max(compute_s, moved_s) + 0.006

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        """A kernel that packs the weights, and the product."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        shape = Shape.of(folded)
        around = epilogue(folded, row_length=shape.outputs[1])
        cuda = rendered("cuda_convolution.cu.j2", _context(folded, shape, setting, around))
        made = cuda_source(folded, cuda, _host(folded, shape, setting, around), values, around, arch="sm_90a")
        return made.model_copy(update={"code": f"{tiles.source()}\n\n{made.code}"})


def _settings(words: tuple[int, ...]) -> list[Setting]:
    """Tiles to choose the default from."""
    tried = [
        (64, 256, 8),
        (64, 192, 4),
        (64, 128, 4),
        (128, 128, 8),
        (128, 256, 8),
        (64, 64, 4),
        (128, 64, 8),
        (192, 128, 12),
        (192, 192, 12),
    ]
    return [
        {"tile_channels": m, "tile_places": n, "warps": w, "weight_stages": 4, "residents": r, "words": each}
        for r in (3, 2, 1)
        for each in reversed(words)
        for m, n, w in tried
    ]


def _other_bytes(setting: Setting) -> int:
    """Shared memory of the weights' stages."""
    return int(setting["weight_stages"]) * int(setting["words"]) * int(setting["tile_channels"]) * 16


def _staged_bytes(setting: Setting) -> int:
    return int(setting["tile_channels"]) * (int(setting["tile_places"]) + 4) * 4


def _most_bytes(setting: Setting) -> int:
    """Shared memory that a block may take."""
    return (MOST_SHARED_BYTES + 1024) // int(setting["residents"]) - 1024


def _tile_arguments(shape: Shape, setting: Setting) -> tuple[int, ...]:
    """What `convolution_tile` takes after height and width."""
    other, most = _other_bytes(setting), _most_bytes(setting)
    return int(setting["tile_places"]), *shape.reaches, shape.place_bytes(setting), other, most


def _context(program: MatmulProgram, shape: Shape, setting: Setting, around: Epilogue) -> dict[str, Any]:
    windows, operand = program.b.windows, program.b
    assert windows is not None
    kind, threads = program.b.dtype, 32 * int(setting["warps"])
    sums = int(setting["tile_channels"]) * int(setting["tile_places"]) // threads
    free = [f"index_t {name}" for name in symbols(program)]
    offsets = terms(operand.strides[:-2], [f"batch_{axis}" for axis in range(len(program.batch))], operand.offset)
    pointer, weights = (around.pointer_of[each.value] for each in (operand, program.a))
    depths = terms(program.a.strides[-2:], ("row", "depth"), program.a.offset)
    packed, read = f"{STORAGE[kind]}* __restrict__ packed", around.pointers[pointer]
    later = [around.pointers[name] for name in around.later if name != pointer]
    return {
        **setting,
        "name": program.name,
        "threads": threads,
        "shared_words": gcd(int(setting["warps"]), int(setting["words"])),
        "whole_tiles": isinstance(program.m, int) and program.m % int(setting["tile_channels"]) == 0,
        "pairs": shape.pairs,
        "pack": shape.pack,
        "depth": 2 * shape.pack,
        "sums": sums,
        "channels": shape.channels,
        **shape.constants(),
        "periods": shape.periods,
        "reaches": shape.reaches,
        "channel_walk": written_out(windows.channel_walk),
        "type": STORAGE[kind],
        "kind": KINDS[kind],
        "m": written_out(program.m),
        "source": f"{pointer} + {offsets}" if offsets else pointer,
        "weight_place": f"{weights} + {depths}" if depths else weights,
        "weights_parameters": ", ".join([around.pointers[weights], packed, *free]),
        "kernel_parameters": ", ".join(
            [read, f"const {packed}", *later, "int tile_rows", "int tile_columns", "int positions", *free]
        ),
        **around.indexed(),
    }


def _host(program: MatmulProgram, shape: Shape, setting: Setting, around: Epilogue) -> Host:
    m, batch, name = written_out(program.m), around.batch_count, program.name
    height, width = (written_out(each) for each in shape.outputs)
    tile_m, words = int(setting["tile_channels"]), int(setting["words"])
    free = [f"index({each})" for each in symbols(program)]
    pointer, weights = (around.pointer_of[each.value] for each in (program.b, program.a))
    packing, main = Kernel(f"{name}_weights_kernel"), Kernel(f"{name}_kernel")
    setup = (f"{main.variable}.max_dynamic_shared_size_bytes = {MOST_SHARED_BYTES}",)
    later = [each for each in around.later if each != pointer]
    packed_words = f"-(-{m} // {tile_m}) * {shape.blocks(setting) * shape.taps * words * tile_m}"
    arguments = ", ".join(str(each) for each in _tile_arguments(shape, setting))
    reach = " + ".join(f"({axis.length}) * ({axis.walk})" for axis in shape.axes)
    sizes = [f"cupy.int32({each})" for each in ("rows", "columns", "places")]
    passed = ", ".join([*(f"{each}.data_ptr()" for each in (pointer, "packed", *later)), *sizes, *free])
    macros = ("out_vec", "wide", "paired") if shape.pairs else ("out_vec", "wide")
    lines = [
        f"if ({reach}) * {BYTES[program.b.dtype]} >= 2**31:",
        f'    raise ValueError("{name}: a channel of 2**31 bytes")',
        f"wide = int({wide_when(program)})",
        "index = cupy.int64 if wide else cupy.int32",
        *([f"paired = int({_even(program, shape, pointer)})"] if shape.pairs else []),
        around.vector_line,
        f"stream = stream_of_{name}(torch.cuda.current_stream().cuda_stream)",
        f"{packing.variable}, {main.variable} = compile_{name}({', '.join(macros)})",
        f"words = {packed_words}",
        f"packed = torch.empty((words * {shape.pack},), dtype=torch.{program.b.dtype}, device={pointer}.device)",
        f"{packing.variable}((-(-words // 256),), (256,), "
        f"({', '.join([f'{weights}.data_ptr()', 'packed.data_ptr()', *free])},), stream=stream)",
        f"rows, columns, places, shared, blocks = convolution_tile({height}, {width}, {arguments})",
        f"shared = max(shared, {_staged_bytes(setting)})",
        f"grid = blocks * -(-{m} // {tile_m}) * {written_out(shape.deep.places)} * {batch}",
        f"{main.variable}((grid,), ({32 * int(setting['warps'])},), ({passed},), shared_mem=shared, stream=stream)",
    ]
    return Host(
        macros=macros,
        kernels=(packing, Kernel(main.name, setup)),
        body=tuple(lines),
        summary="Convolution with its epilogue, on warpgroup instructions.",
        skip_if_empty=f"{m} * {written_out(program.n)} * {batch} == 0",
    )


def _even(program: MatmulProgram, shape: Shape, pointer: str) -> str:
    """Python for whether every row of the input begins at a multiple of two elements and has an even number."""
    windows = program.b.windows
    assert windows is not None
    steps = [*program.b.strides[:-2], program.b.offset, windows.channel_walk, shape.deep.walk, shape.axes[0].walk]
    free = [each for each in (*steps, shape.axes[1].length) if not multiple_of(each, 2)]
    return " and ".join([f"{pointer}.data_ptr() % 4 == 0", *(f"({each}) % 2 == 0" for each in dict.fromkeys(free))])
