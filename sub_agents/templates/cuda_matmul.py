"""Matrix product with a fused epilogue in CUDA C++ on warp-level tensor-core instructions (`mma.sync`, from sm_80).

fp16 and bf16 operands go to m16n8k16; fp32 operands are split into two tf32 numbers and take three m16n8k8 products,
summed from zero for every eight of k. Tiles come by asynchronous copies of 4 to 16 bytes, by alignment at run time.
"""

from typing import Any

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import product
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_matmul_source import (
    Epilogue,
    Host,
    Kernel,
    cuda_source,
    epilogue,
    operand_steps,
    rendered,
    vector_line,
)
from .cuda_types import STORAGE
from .matmul_program import Pace, extent, factor_dtype, fold, product_ms, products, symbols, worthwhile
from .triton_matmul_operands import factors, vectors_possible
from .triton_matmul_settings import best_tile
from .triton_matmul_source import Values, contiguous_axis, terms, written_out


class CudaMatmul:
    """Grouped tile order, multi-stage copies, padded shared memory, k split with a second kernel."""

    name = "cuda_matmul"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """Products of operands of one dtype (fp32, fp16, bf16), for halves also two with one left factor."""
        if not isinstance(program, MatmulProgram) or factor_dtype(program) is None:
            return False
        also = program.also
        return also is None or (
            program.a.dtype != "float32" and contiguous_axis(also) == contiguous_axis(program.b) is not None
        )

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """Names and meanings as in `triton_matmul`, so that its settings can be taken over."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        fp32 = factor_dtype(folded) == "float32"
        tile_k = 16 if fp32 else 32
        tile_m, tile_n, split_k = best_tile(extent(folded, hints), device, wide=False, tile_k=tile_k)
        if folded.also is not None:
            tile_m, tile_n, split_k = 128, 64, 1
        tile_m, tile_n = max(32, tile_m), max(32, tile_n)
        big = products(folded) * tile_m * tile_n >= 128 * 128
        splits = (1, 2, 4, 8, 16, 32) if folded.also is None else (1,)
        return (
            Slot(name="tile_m", role="configuration", choices=(32, 64, 128, 256), default=tile_m),
            Slot(name="tile_n", role="configuration", choices=(32, 64, 128, 256), default=tile_n),
            Slot(name="tile_k", role="memory", choices=(16, 32, 64), default=tile_k),
            Slot(name="num_warps", role="configuration", choices=(4, 8), default=8 if big else 4),
            Slot(name="num_stages", role="compute", choices=(2, 3, 4, 5), default=4),
            Slot(name="group_m", role="memory", choices=(1, 4, 8, 16), default=8, about="rows of tiles that share L2"),
            Slot(name="split_k", role="reduction", choices=splits, default=split_k),
            Slot(name="padding", role="memory", choices=(False, True), default=True, about="of shared-memory rows"),
        )

    def legal(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        hints: dict[str, int],
        device: DeviceSheet,
    ) -> bool:
        """Warp tiles are whole fragments, accumulators fit registers, stages fit shared memory."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        fp32 = factor_dtype(folded) == "float32"
        tile_m, tile_n = int(setting["tile_m"]), int(setting["tile_n"])
        warps_m, warps_n = warp_grid(setting)
        if tile_m % (16 * warps_m) or tile_n % (16 * warps_n):
            return False
        # fp32 keeps a step's sums beside the accumulator.
        if products(folded) * tile_m * tile_n // (32 * int(setting["num_warps"])) > (64 if fp32 else 128):
            return False
        splits = int(setting["split_k"])
        sizes = extent(folded, hints)
        if splits > 1 and splits * int(setting["tile_k"]) > sizes.k:
            return False
        if not worthwhile(sizes, setting, device):
            return False
        fits_shared = shared_bytes(folded, setting) <= device.shared_bytes_per_block
        return fits_shared and int(device.arch.removeprefix("sm_")) >= 80

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """By waves of tiles at the rates of warp-level instructions."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        rate = 45e12 if factor_dtype(folded) == "float32" else 280e12
        rate *= 1.0 if vectors_possible(folded, hints) else 0.4
        return product_ms(folded, setting, hints, device, Pace(rate_flops=rate))

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        """One kernel, or two where k is split."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        around = epilogue(folded)
        cuda = rendered("cuda_matmul.cu.j2", _context(folded, setting, around))
        return cuda_source(folded, cuda, _host(folded, setting, around), values, around)


def warp_grid(setting: Setting) -> tuple[int, int]:
    """Warps along m and n: warp tiles as square as the tile allows, wider along n in doubt."""
    warps = int(setting["num_warps"])
    tile_m, tile_n = int(setting["tile_m"]), int(setting["tile_n"])
    grids = [(m, warps // m) for m in (1, 2, 4, 8) if warps % m == 0]
    return min(grids, key=lambda grid: (abs(tile_m / grid[0] - tile_n / grid[1]), -grid[0]))


def pads(program: MatmulProgram, setting: Setting) -> tuple[int, int]:
    """Elements behind each shared row of A and B that put a fragment's rows into different banks."""
    if not setting["padding"]:
        return 0, 0
    if factor_dtype(program) != "float32":
        return 8, 8
    return (4 if k_inner(program, "a") else 8), (4 if k_inner(program, "b") else 8)


def shared_bytes(program: MatmulProgram, setting: Setting) -> int:
    """The larger of the pipeline's stages and the tile of sums that is brought into rows."""
    tile_m, tile_n, tile_k = (int(setting[f"tile_{axis}"]) for axis in "mnk")
    a_pad, b_pad = pads(program, setting)
    a_tile = tile_m * (tile_k + a_pad) if k_inner(program, "a") else tile_k * (tile_m + a_pad)
    b_tile = tile_n * (tile_k + b_pad) if k_inner(program, "b") else tile_k * (tile_n + b_pad)
    right = products(program)
    stages = (a_tile + right * b_tile) * BYTES[program.a.dtype] * int(setting["num_stages"])
    return max(stages, right * tile_m * (tile_n + 4) * 4)


def k_inner(program: MatmulProgram, side: str) -> bool:
    """Whether rows in shared memory run along k: where memory does, and where it runs along neither axis."""
    operand = program.a if side == "a" else program.b
    return contiguous_axis(operand) in ((-1, None) if side == "a" else (-2, None))


def _context(program: MatmulProgram, setting: Setting, around: Epilogue) -> dict[str, Any]:
    warps_m, warps_n = warp_grid(setting)
    a_pad, b_pad = pads(program, setting)
    operands, later = around.operands, around.later
    free = [f"long long {name}" for name in symbols(program)]
    split = int(setting["split_k"]) > 1
    parts = "float* __restrict__ parts"
    stored = [parts] if split else [around.pointers[name] for name in later if name not in operands]
    return {
        **setting,
        "name": program.name,
        "element": STORAGE[program.a.dtype],
        "m": written_out(program.m),
        "n": written_out(program.n),
        "k": written_out(program.k),
        "warps_m": warps_m,
        "warps_n": warps_n,
        "a_pad": a_pad,
        "b_pad": b_pad,
        "loads": around.loads,
        "stores": around.stores,
        "body": around.body,
        "batch_lines": around.batch_lines,
        "batch_count": around.batch_count,
        "padded_n": f"(({written_out(program.n)} + 3) / 4 * 4)",
        "kernel_parameters": ", ".join([*(around.pointers[name] for name in operands), *stored, *free]),
        "sum_parameters": ", ".join([f"const {parts}", *(around.pointers[name] for name in later), *free]),
        **_side(program, "a", around),
        **_side(program, "b", around),
        **(_side(program, "c", around) if program.also is not None else {}),
        "also": program.also is not None,
    }


def _side(program: MatmulProgram, side: str, around: Epilogue) -> dict[str, Any]:
    operand = factors(program)[side]
    along_k = k_inner(program, "a" if side == "a" else "b")
    outer_stride, k_stride = operand.strides[-2:] if side == "a" else operand.strides[:-3:-1]
    batch = [f"batch_{axis}" for axis in range(len(program.batch))]
    indices = [*batch, "first_row" if side == "a" else "first_column"]
    offsets = terms((*operand.strides[:-2], outer_stride), indices, operand.offset)
    pointer = around.pointer_of[operand.value]
    row_stride, inner_stride = (outer_stride, k_stride) if along_k else (k_stride, outer_stride)
    return {
        f"{side}_k_inner": along_k,
        f"{side}_source": f"{pointer} + {offsets}" if offsets else pointer,
        f"{side}_k_stride": written_out(k_stride),
        f"{side}_row_stride": written_out(row_stride),
        f"{side}_inner_stride": written_out(inner_stride),
    }


def _host(program: MatmulProgram, setting: Setting, around: Epilogue) -> Host:
    m, n, batch = written_out(program.m), written_out(program.n), around.batch_count
    tile_m, tile_n, split_k = int(setting["tile_m"]), int(setting["tile_n"]), int(setting["split_k"])
    shared, name = shared_bytes(program, setting), program.name
    limit = 16 // BYTES[program.a.dtype]
    lines = []
    right = [program.b] if program.also is None else [program.b, program.also]
    for side, sources in (("a", [program.a]), ("b", right)):
        axis = contiguous_axis(sources[0])
        accesses = [(around.pointer_of[o.value], o.dtype, operand_steps(o, axis or -1)) for o in sources]
        lines.append(vector_line(f"{side}_vec", limit, accesses) if axis is not None else f"{side}_vec = 1")
    lines += [around.vector_line, f"stream = stream_of_{name}(torch.cuda.current_stream().cuda_stream)"]
    operands, later = around.operands, around.later
    free = [f"cupy.int64({each})" for each in symbols(program)]
    grid = f"-(-{m} // {tile_m}) * -(-{n} // {tile_n}) * {split_k} * {batch}"
    threads = 32 * int(setting["num_warps"])
    stored = ["parts"] if split_k > 1 else [each for each in later if each not in operands]
    arguments = ", ".join([*(f"{each}.data_ptr()" for each in (*operands, *stored)), *free])
    kernel = Kernel(f"{name}_kernel")
    variable = "kernel" if split_k == 1 else kernel.variable
    kernels = [
        Kernel(kernel.name, (f"{variable}.max_dynamic_shared_size_bytes = {shared}",) if shared > 48 * 1024 else ())
    ]
    if split_k > 1:
        kernels.append(Kernel(f"{name}_sum_kernel"))
    fetched = "kernel" if split_k == 1 else ", ".join(each.variable for each in kernels)
    lines.append(f"{fetched} = compile_{name}(a_vec, b_vec, out_vec)")
    if split_k > 1:
        size = f"({split_k} * {batch} * {m} * (-(-{n} // 4) * 4),)"
        lines.append(f"parts = torch.empty({size}, dtype=torch.float32, device={operands[0]}.device)")
    lines.append(f"{variable}(({grid},), ({threads},), ({arguments},), shared_mem={shared}, stream=stream)")
    if split_k > 1:
        words = f"{batch} * {m} * (-(-{n} // 4) * 4 // out_vec)"
        arguments = ", ".join([*(f"{each}.data_ptr()" for each in ("parts", *later)), *free])
        lines.append(f"{kernels[1].variable}((-(-({words}) // 256),), (256,), ({arguments},), stream=stream)")
    return Host(
        macros=("a_vec", "b_vec", "out_vec"),
        kernels=tuple(kernels),
        body=tuple(lines),
        summary="Matrix product with its epilogue.",
        skip_if_empty=f"{m} * {n} * {written_out(product(program.batch))} == 0",
    )
