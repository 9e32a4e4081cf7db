"""Matrix product with a fused epilogue in CUDA C++ on Hopper's warpgroup instructions (`wgmma`, sm_90a only).

fp16 and bf16 tiles come by asynchronous copies into swizzled shared memory, in whichever axis order they lie. fp32
operands are first split into two fp16 planes with a power of two for each tile, and the product is three fp16 products
(see `triton_split_matmul`); half-precision operands whose layout has no 16-byte words are first copied likewise.
"""

from typing import Any

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram, Operand
from ...state.sizes import product
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_matmul_source import Epilogue, Host, Kernel, cuda_source, epilogue, rendered
from .cuda_types import STORAGE
from .matmul_program import Pace, epilogue_share, extent, fold, operand_dtype, product_ms, symbols, worthwhile
from .triton_matmul_operands import describable
from .triton_matmul_settings import best_tile
from .triton_matmul_source import Values, contiguous_axis, terms, written_out

TILE_K = 64
MOST_FIXED_SHARED_BYTES = 47 * 1024
"""48 KiB less what the kernels hold besides a tile."""


class CudaMatmulHopper:
    """One tile of the result a block, two or three warpgroups, products of two steps under way at a time."""

    name = "cuda_matmul_hopper"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """Any product of two operands of one dtype (fp32, fp16, bf16)."""
        return isinstance(program, MatmulProgram) and operand_dtype(program) is not None

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """Names and meanings as in `triton_matmul`, so that its settings can be taken over."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        fp32 = operand_dtype(folded) == "float32"
        sizes = extent(folded, hints)
        # As in `triton_matmul`: two blocks on a multiprocessor hide a long epilogue behind each other's products.
        wide = not fp32 and epilogue_share(folded, sizes) < 0.2
        tile_m, tile_n, split_k = best_tile(sizes, device, wide=wide, tile_k=TILE_K)
        # Along n, B lies in panels of 64.
        tile_m, tile_n = max(64, tile_m), max(32 if _k_inner(folded, "b") else 64, tile_n)
        return (
            Slot(name="tile_m", role="configuration", choices=(64, 128, 192, 256), default=tile_m),
            Slot(name="tile_n", role="configuration", choices=(32, 64, 128, 192, 256), default=tile_n),
            Slot(name="num_warps", role="configuration", choices=(4, 8, 12), default=4 if tile_m == 64 else 8),
            Slot(
                name="producer",
                role="configuration",
                choices=(False, True),
                default=fp32,
                about="a warpgroup for copies",
            ),
            Slot(name="num_stages", role="compute", choices=(3, 4, 5, 6), default=4 if wide else 3),
            Slot(name="group_m", role="memory", choices=(1, 4, 8, 16), default=8, about="rows of tiles that share L2"),
            Slot(name="split_k", role="reduction", choices=(1, 2, 4, 8, 16, 32), default=split_k),
        )

    def legal(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        hints: dict[str, int],
        device: DeviceSheet,
    ) -> bool:
        """Every warpgroup has whole blocks of 64 rows, sums fit registers, stages fit shared memory, sm_90."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        tile_m, tile_n, warps = int(setting["tile_m"]), int(setting["tile_n"]), int(setting["num_warps"])
        if tile_m % (16 * warps) or (tile_n % 64 and not _k_inner(folded, "b")):
            return False
        # Split products keep a step's sums beside the accumulator.
        sums = tile_m * tile_n // (32 * warps) * _planes(folded)
        threads = _threads(setting)
        if sums > min(160, 65536 // threads - 40):
            return False
        splits = int(setting["split_k"])
        sizes = extent(folded, hints)
        if splits > 1 and splits * TILE_K > sizes.k:
            return False
        if not worthwhile(sizes, setting, device):
            return False
        # A splitting kernel holds one tile, padded by an element a row, in shared memory of fixed size.
        row_bytes = (TILE_K + 1) * BYTES[folded.a.dtype]
        if _packed(folded) and max(tile_m, tile_n) * row_bytes > MOST_FIXED_SHARED_BYTES:
            return False
        # Every copying thread has whole 16-byte words of every tile.
        copiers = 128 if setting["producer"] else threads
        if any(tile * TILE_K // 8 % copiers for tile in (tile_m, tile_n)):
            return False
        return shared_bytes(folded, setting) <= device.shared_bytes_per_block and device.arch == "sm_90"

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """By waves of tiles at the rate of the instructions, and the splitting kernels' traffic."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        rate = 180e12 if _planes(folded) == 2 else 330e12
        return product_ms(folded, setting, hints, device, Pace(rate_flops=rate, split=_packed(folded)))

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        """The product, with splitting kernels before it and a summing one after it where they are needed."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        around = epilogue(folded)
        cuda = rendered("cuda_matmul_hopper.cu.j2", _context(folded, setting, around))
        return cuda_source(folded, cuda, _host(folded, setting, around), values, around, arch="sm_90a")


def _threads(setting: Setting) -> int:
    """`num_warps` multiply; a producer has four more."""
    return 32 * (int(setting["num_warps"]) + (4 if setting["producer"] else 0))


def _planes(program: MatmulProgram) -> int:
    return 2 if operand_dtype(program) == "float32" else 1


def _packed(program: MatmulProgram) -> bool:
    """Whether operands are rewritten before the product."""
    return _planes(program) == 2 or not all(describable(each, {}) for each in (program.a, program.b))


def _element(program: MatmulProgram) -> str:
    return "float16" if _planes(program) == 2 else program.a.dtype


def shared_bytes(program: MatmulProgram, setting: Setting) -> int:
    """The larger of the stages and the tile of sums that is brought into rows, and room to align to 1024 bytes."""
    tile_m, tile_n = int(setting["tile_m"]), int(setting["tile_n"])
    stages = (tile_m + tile_n) * TILE_K * 2 * _planes(program) * int(setting["num_stages"])
    return max(stages, tile_m * (tile_n + 4) * 4) + 1024


def _residents(program: MatmulProgram, setting: Setting) -> int:
    """Blocks that a multiprocessor is to hold: two where shared memory and registers let it."""
    threads = _threads(setting)
    sums = int(setting["tile_m"]) * int(setting["tile_n"]) // (32 * int(setting["num_warps"])) * _planes(program)
    fits_registers = sums + 40 <= 65536 // (2 * threads)
    return 2 if fits_registers and 2 * shared_bytes(program, setting) <= 227 * 1024 else 1


def _k_inner(program: MatmulProgram, side: str) -> bool:
    operand = program.a if side == "a" else program.b
    return _packed(program) or contiguous_axis(operand) == (-1 if side == "a" else -2)


def _own_batch(operand: Operand) -> bool:
    return any(stride != 0 for stride in operand.strides[:-2])


def _context(program: MatmulProgram, setting: Setting, around: Epilogue) -> dict[str, Any]:
    free = [f"long long {name}" for name in symbols(program)]
    split = int(setting["split_k"]) > 1
    parts = "float* __restrict__ parts"
    packed, planes = _packed(program), _planes(program)
    operands = [around.pointers[name] for name in around.operands]
    if packed:
        operands = [f"const {_element(program)}* __restrict__ {side}_planes" for side in "ab"]
        if planes == 2:
            operands += [f"const float* __restrict__ {side}_scales" for side in "ab"]
    taken = () if packed else around.operands
    stored = [parts] if split else [around.pointers[name] for name in around.later if name not in taken]
    return {
        **setting,
        "name": program.name,
        "element": _element(program),
        "kind": {"float16": "f16", "bfloat16": "bf16"}[_element(program)],
        "groups": int(setting["num_warps"]) // 4,
        "residents": _residents(program, setting),
        "planes": planes,
        "m": written_out(program.m),
        "n": written_out(program.n),
        "k": written_out(program.k),
        "loads": around.loads,
        "stores": around.stores,
        "body": around.body,
        "batch_lines": around.batch_lines,
        "batch_count": around.batch_count,
        "padded_n": f"(({written_out(program.n)} + 3) / 4 * 4)",
        "kernel_parameters": ", ".join([*operands, *stored, *free]),
        "sum_parameters": ", ".join([f"const {parts}", *(around.pointers[name] for name in around.later), *free]),
        "splits": [_splitting(program, side, setting, around) for side in "ab"] if packed else [],
        **_side(program, "a", around),
        **_side(program, "b", around),
    }


def _side(program: MatmulProgram, side: str, around: Epilogue) -> dict[str, Any]:
    operand = program.a if side == "a" else program.b
    first, tiles, tile = ("first_row", "tiles_m", "TILE_M") if side == "a" else ("first_column", "tiles_n", "TILE_N")
    batch = "flat_batch" if _own_batch(operand) else "0"
    if _packed(program):
        return {
            f"{side}_k_inner": True,
            f"{side}_batch": batch,
            f"{side}_source": f"{side}_planes + ({batch} * PLANES * {tiles} * {tile} + {first}) * (k_steps * TILE_K)",
            f"{side}_plane": f"({tiles} * {tile} * k_steps * TILE_K)",
            f"{side}_k_stride": "1",
            f"{side}_row_stride": "k_steps * TILE_K",
            f"{side}_inside": f"{tile}, TILE_K",
        }
    outer_stride, k_stride = operand.strides[-2:] if side == "a" else operand.strides[:-3:-1]
    indices = [*(f"batch_{axis}" for axis in range(len(program.batch))), first]
    offsets = terms((*operand.strides[:-2], outer_stride), indices, operand.offset)
    pointer = around.pointer_of[operand.value]
    k_inner = _k_inner(program, side)
    outer_left = f"{written_out(program.m if side == 'a' else program.n)} - {first}"
    k_left = f"{written_out(program.k)} - k"
    return {
        f"{side}_k_inner": k_inner,
        f"{side}_batch": batch,
        f"{side}_source": f"{pointer} + {offsets}" if offsets else pointer,
        f"{side}_plane": "0",
        f"{side}_k_stride": written_out(k_stride),
        f"{side}_row_stride": written_out(outer_stride if k_inner else k_stride),
        f"{side}_inside": f"{outer_left}, {k_left}" if k_inner else f"{k_left}, {outer_left}",
    }


def _splitting(program: MatmulProgram, side: str, setting: Setting, around: Epilogue) -> dict[str, Any]:
    """Context of one operand's splitting kernel."""
    operand, size = (program.a, program.m) if side == "a" else (program.b, program.n)
    outer_stride, k_stride = operand.strides[-2:] if side == "a" else operand.strides[:-3:-1]
    indices = [*(f"batch_{axis}" for axis in range(len(program.batch))), "outer", "depth"]
    offsets = terms((*operand.strides[:-2], outer_stride, k_stride), indices, operand.offset)
    pointer = around.pointer_of[operand.value]
    parameters = [around.pointers[pointer], f"{_element(program)}* __restrict__ planes"]
    if _planes(program) == 2:
        parameters.append("float* __restrict__ scales")
    return {
        "name": side,
        "tile": setting["tile_m" if side == "a" else "tile_n"],
        "type": STORAGE[operand.dtype],
        "size": written_out(size),
        "k_inner": k_stride == 1,
        "place": f"{pointer} + {offsets}" if offsets else pointer,
        "batch_lines": around.batch_lines if _own_batch(operand) else (),
        "parameters": ", ".join([*parameters, *(f"long long {name}" for name in symbols(program))]),
    }


def _host(program: MatmulProgram, setting: Setting, around: Epilogue) -> Host:
    m, n, batch = written_out(program.m), written_out(program.n), around.batch_count
    tile_m, tile_n, split_k = int(setting["tile_m"]), int(setting["tile_n"]), int(setting["split_k"])
    name, packed = program.name, _packed(program)
    free = [f"cupy.int64({each})" for each in symbols(program)]
    device = f"device={around.operands[0]}.device"
    main = Kernel(f"{name}_kernel")
    names = [*(f"{name}_split_{side}_kernel" for side in "ab" if packed), main.name]
    names += [f"{name}_sum_kernel"] if split_k > 1 else []
    variable = main.variable if len(names) > 1 else "kernel"
    shared = shared_bytes(program, setting)
    setup = (f"{variable}.max_dynamic_shared_size_bytes = {shared}",)
    kernels = tuple(Kernel(each, setup if each == main.name else ()) for each in names)
    fetched = ", ".join(each.variable for each in kernels) if len(names) > 1 else "kernel"
    lines = [around.vector_line, f"stream = stream_of_{name}(torch.cuda.current_stream().cuda_stream)"]
    lines.append(f"{fetched} = compile_{name}(out_vec)")
    operands = list(around.operands)
    if packed:
        operands = ["a_planes", "b_planes"] + (["a_scales", "b_scales"] if _planes(program) == 2 else [])
        for side in "ab":
            lines += _split_lines(program, side, setting, around)
    else:
        for each in operands:
            lines += [f"if {each}.data_ptr() % 16:  # copies are of 16 bytes", f"    {each} = {each}.clone()"]
    stored = ["parts"] if split_k > 1 else [each for each in around.later if packed or each not in operands]
    if split_k > 1:
        size = f"({split_k} * {batch} * {m} * (-(-{n} // 4) * 4),)"
        lines.append(f"parts = torch.empty({size}, dtype=torch.float32, {device})")
    arguments = ", ".join([*(f"{each}.data_ptr()" for each in (*operands, *stored)), *free])
    grid = f"-(-{m} // {tile_m}) * -(-{n} // {tile_n}) * {split_k} * {batch}"
    threads = _threads(setting)
    lines.append(f"{variable}(({grid},), ({threads},), ({arguments},), shared_mem={shared}, stream=stream)")
    if split_k > 1:
        words = f"{batch} * {m} * (-(-{n} // 4) * 4 // out_vec)"
        arguments = ", ".join([*(f"{each}.data_ptr()" for each in ("parts", *around.later)), *free])
        lines.append(f"{kernels[-1].variable}((-(-({words}) // 256),), (256,), ({arguments},), stream=stream)")
    return Host(
        macros=("out_vec",),
        kernels=kernels,
        body=tuple(lines),
        summary="Matrix product with its epilogue, on warpgroup instructions.",
        skip_if_empty=f"{m} * {n} * {written_out(product(program.batch))} == 0",
    )


def _split_lines(program: MatmulProgram, side: str, setting: Setting, around: Epilogue) -> list[str]:
    """Host lines that allocate one operand's planes and launch its splitting kernel."""
    operand, size = (program.a, program.m) if side == "a" else (program.b, program.n)
    tile = setting["tile_m" if side == "a" else "tile_n"]
    batch = around.batch_count if _own_batch(operand) else "1"
    device = f"device={around.operands[0]}.device"
    lines = [
        f"{side}_tiles, k_steps = -(-{written_out(size)} // {tile}), -(-{written_out(program.k)} // {TILE_K})",
        f"{side}_planes = torch.empty(({batch} * {_planes(program)} * {side}_tiles * {tile} * k_steps * {TILE_K},), "
        f"dtype=torch.{_element(program)}, {device})",
    ]
    arguments = [f"{around.pointer_of[operand.value]}.data_ptr()", f"{side}_planes.data_ptr()"]
    if _planes(program) == 2:
        lines.append(f"{side}_scales = torch.empty(({batch} * {side}_tiles * k_steps,), dtype=torch.float32, {device})")
        arguments.append(f"{side}_scales.data_ptr()")
    arguments += [f"cupy.int64({each})" for each in symbols(program)]
    launch = (
        f"{program.name}_split_{side}_kernel_kernel(({batch} * {side}_tiles * k_steps,), (256,), "
        f"({', '.join(arguments)},), stream=stream)"
    )
    return [*lines, "if k_steps:", f"    {launch}"]
