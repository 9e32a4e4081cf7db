"""Many products of small float32 matrices in CUDA C++: whole matrices in shared memory, plain fused multiply-adds.

Tensor cores would pad each matrix and take three products for one; where matrices are small enough to be bound by
memory, the float32 units keep up, and blocks that wait for their matrices hide behind blocks that multiply. Sizes are
constants of the compiled kernel. A call whose matrices are too large for that goes to the tiled kernel.
"""

from typing import Any

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_matmul import CudaMatmul, k_inner
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
from .matmul_program import Extent, epilogue_bytes_moved, extent, fold, operand_dtype, symbols
from .triton_matmul_source import Values, contiguous_axis, terms, written_out

MOST = 96
"""Largest size along any axis."""
LEAST_MATRICES = 128
MOST_SHARED_BYTES = 96 * 1024
"""What a block may take on every device since sm_80."""
CLOCK_HZ = 1.7e9
_TILED: Setting = {
    "tile_m": 64,
    "tile_n": 64,
    "tile_k": 16,
    "num_warps": 4,
    "num_stages": 3,
    "group_m": 8,
    "split_k": 1,
    "padding": True,
}


class CudaMatmulSmall:
    """A block for a few matrices, a register tile a thread."""

    name = "cuda_matmul_small"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """Batches of a hundred float32 matrices and more, up to 96 x 96."""
        if not isinstance(program, MatmulProgram) or operand_dtype(program) != "float32":
            return False
        sizes = extent(fold(program), hints)
        return max(sizes.m, sizes.n, sizes.k) <= MOST and sizes.batch >= LEAST_MATRICES

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """What a thread sums and how many matrices a block takes."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        sizes = extent(folded, hints)
        tiles: list[Setting] = [{"rows": r, "columns": c, "items": 1} for r in (2, 4, 6, 8) for c in (2, 4, 6, 8)]
        best = min(tiles, key=lambda tile: product_seconds(sizes, tile, device))
        threads = threads_of(sizes, best)
        items = max(1, min(8, 64 // threads))
        return (
            Slot(name="rows", role="configuration", choices=(2, 4, 6, 8), default=best["rows"], about="a thread"),
            Slot(name="columns", role="configuration", choices=(2, 4, 6, 8), default=best["columns"], about="a thread"),
            Slot(
                name="items",
                role="configuration",
                choices=(1, 2, 3, 4, 6, 8),
                default={5: 4, 7: 6}.get(items, items),
                about="matrices a block",
            ),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        """Between a warp and 512 threads a block; and shared memory for two of them."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        sizes = extent(folded, hints)
        shared = int(setting["items"]) * item_floats(folded, sizes, setting) * 4
        return 32 <= threads_of(sizes, setting) <= 512 and shared <= MOST_SHARED_BYTES

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """The longer of bytes and instructions, and a part of the shorter."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        sizes = extent(folded, hints)
        operand_bytes = sizes.batch * (sizes.m + sizes.n) * sizes.k * BYTES[folded.a.dtype]
        moved_s = (operand_bytes + epilogue_bytes_moved(folded, hints)) / (0.9 * device.copy_bytes_per_s)
        busy_s = product_seconds(sizes, setting, device)
        return 1e3 * (max(moved_s, busy_s) + 0.25 * min(moved_s, busy_s)) + 0.003

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        """A kernel for small matrices and one for those that a call may bring instead."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        around = epilogue(folded)
        cuda = rendered("cuda_matmul_small.cu.j2", _context(folded, setting, around))
        source = cuda_source(folded, cuda, _host(folded, setting, around), values, around)
        plain = CudaMatmul().render(folded.model_copy(update={"name": f"{folded.name}_tiled"}), _TILED, values)
        return source.model_copy(update={"code": f"{source.code}\n\n{plain.code}"})


def threads_of(sizes: Extent, setting: Setting) -> int:
    """Threads a block, before they are made whole warps."""
    down, across = -(-sizes.m // int(setting["rows"])), -(-sizes.n // int(setting["columns"]))
    return int(setting["items"]) * down * across


def item_floats(program: MatmulProgram, sizes: Extent, setting: Setting) -> int:
    """Shared memory for one matrix product, in float32 numbers: both factors, later the result."""
    rows, columns = int(setting["rows"]), int(setting["columns"])
    k = _whole(sizes.k)
    m, n = _whole(-(-sizes.m // rows) * rows), _whole(-(-sizes.n // columns) * columns)
    a = m * (k + 4) if k_inner(program, "a") else k * m
    b = n * (k + 4) if k_inner(program, "b") else k * n
    return max(a + b, m * (n + 4))


def product_seconds(sizes: Extent, setting: Setting, device: DeviceSheet) -> float:
    """Time of multiply-adds, padded to whole register tiles and warps, and of reading them from shared memory."""
    rows, columns = int(setting["rows"]), int(setting["columns"])
    threads = threads_of(sizes, setting)
    lanes = -(-threads // 32) * 32 / int(setting["items"])
    # A thread reads rows + columns numbers for rows x columns multiply-adds; a quarter of them at once.
    steps = rows * columns + 1.5 * (rows + columns) / 2 + 2
    # The sums and what is multiplied next live in registers: few warps hide little.
    share = 0.8 if rows * columns <= 36 else 0.65
    return sizes.batch * sizes.k * steps * lanes / (128 * device.sm_count * CLOCK_HZ * share)


def _whole(size: int) -> int:
    return -(-size // 4) * 4


def _context(program: MatmulProgram, setting: Setting, around: Epilogue) -> dict[str, Any]:
    stored = [around.pointers[name] for name in around.later if name not in around.operands]
    free = [f"long long {name}" for name in symbols(program)]
    return {
        **setting,
        "name": program.name,
        "m": "SIZE_M",
        "n": "SIZE_N",
        "split_k": 1,
        "loads": around.loads,
        "stores": around.stores,
        "body": around.body,
        "batch_lines": around.batch_lines,
        "batch_count": around.batch_count,
        "kernel_parameters": ", ".join([*(around.pointers[name] for name in around.operands), *stored, *free]),
        **_side(program, "a", around),
        **_side(program, "b", around),
    }


def _side(program: MatmulProgram, side: str, around: Epilogue) -> dict[str, Any]:
    operand = program.a if side == "a" else program.b
    outer_stride, k_stride = operand.strides[-2:] if side == "a" else operand.strides[:-3:-1]
    batch = [f"batch_{axis}" for axis in range(len(program.batch))]
    offsets = terms(operand.strides[:-2], batch, operand.offset)
    pointer = around.pointer_of[operand.value]
    inner = k_inner(program, side)
    row_stride, inner_stride = (outer_stride, k_stride) if inner else (k_stride, outer_stride)
    return {
        f"{side}_k_inner": inner,
        f"{side}_source": f"{pointer} + {offsets}" if offsets else pointer,
        f"{side}_row_stride": written_out(row_stride),
        f"{side}_inner_stride": written_out(inner_stride),
    }


def _host(program: MatmulProgram, setting: Setting, around: Epilogue) -> Host:
    m, n, k, batch, name = *map(written_out, (program.m, program.n, program.k)), around.batch_count, program.name
    rows, columns, items = (int(setting[each]) for each in ("rows", "columns", "items"))
    operands = (program.a, program.b)
    parameters = [*(around.pointer_of[value] for value in program.reads), *symbols(program)]
    lines = [
        f"down, across = -(-{m} // {rows}), -(-{n} // {columns})",
        f"m_whole, n_whole, k_whole = (-(-size // 4) * 4 for size in (down * {rows}, across * {columns}, {k}))",
        f"factors = {_floats(program, 'a')} + {_floats(program, 'b')}",
        f"shared = {4 * items} * max(factors, m_whole * (n_whole + 4))",
        f"threads = -(-{items} * down * across // 32) * 32",
        f"if max({m}, {n}, {k}) > {MOST} or threads > 1024 or shared > {MOST_SHARED_BYTES}:",
        f"    return run_{name}_tiled({', '.join(parameters)})",
    ]
    for side, operand in zip("ab", operands, strict=True):
        axis = contiguous_axis(operand)
        access = (around.pointer_of[operand.value], operand.dtype, operand_steps(operand, axis or -1))
        lines.append(vector_line(f"{side}_vec", 4, [access]) if axis is not None else f"{side}_vec = 1")
    stored = [each for each in around.later if each not in around.operands]
    passed = [f"{each}.data_ptr()" for each in (*around.operands, *stored)]
    passed += [f"cupy.int64({each})" for each in symbols(program)]
    lines += [
        around.vector_line,
        f"stream = stream_of_{name}(torch.cuda.current_stream().cuda_stream)",
        f"kernel = compile_{name}(a_vec, b_vec, out_vec, {m}, {n}, {k})",
        "kernel.max_dynamic_shared_size_bytes = shared",
        f"kernel((-(-({batch}) // {items}),), (threads,), ({', '.join(passed)},), shared_mem=shared, stream=stream)",
    ]
    return Host(
        macros=("a_vec", "b_vec", "out_vec", "size_m", "size_n", "size_k"),
        kernels=(Kernel(f"{name}_kernel"),),
        body=tuple(lines),
        summary="Products of small matrices with their epilogue.",
        skip_if_empty=f"{m} * {n} * {batch} == 0",
    )


def _floats(program: MatmulProgram, side: str) -> str:
    size = "m_whole" if side == "a" else "n_whole"
    return f"{size} * (k_whole + 4)" if k_inner(program, side) else f"{size} * k_whole"
