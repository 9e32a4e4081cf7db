"""Product of a matrix with a few vectors in CUDA C++: bound by reading the matrix once, in 16-byte words.

No tensor cores; sums are kept in fp32 by many threads and joined by shuffles and shared memory, and where k is split
over blocks by a second kernel in a fixed order.
"""

from typing import Any

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import Size, product
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_expression import read
from .cuda_matmul_source import Epilogue, Host, Kernel, cuda_source, epilogue, operand_steps, rendered, vector_line
from .cuda_types import STORAGE
from .matmul_program import extent, fold, operand_dtype, symbols
from .triton_matmul_source import Values, contiguous_axis, terms, written_out
from .triton_matvec import few_vectors, large_along_k, matrix_side, outer_size, vector_count, vector_slots

MOST_VECTORS = 8


class CudaMatvec:
    """Groups of up to eight vectors."""

    name = "cuda_matvec"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """A product whose m or n is at most eight, where the matrix is contiguous along one of its axes.

        Where a symbol counts the vectors, calls with more of them go in groups.
        """
        if not isinstance(program, MatmulProgram) or operand_dtype(program) is None:
            return False
        folded = fold(program)
        if few_vectors(folded, hints, MOST_VECTORS) == 0:
            return False
        return contiguous_axis(folded.a if matrix_side(folded, hints) == "a" else folded.b) is not None

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """Threads, rows that share the vectors, and how k is divided."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        sizes = extent(folded, hints)
        few, matrix = few_vectors(folded, hints, MOST_VECTORS), matrix_side(folded, hints)
        outer = sizes.batch * outer_size(sizes, matrix)
        vec = 16 // BYTES[folded.a.dtype]
        along_k = large_along_k(folded, matrix)
        blocks = outer / 16 if along_k else outer / (32 * vec)
        split = 1
        # Eight blocks a multiprocessor, each with at least eight vectors of k for every lane or warp.
        least = 8 * 32 * vec if along_k else 8 * 8
        while split < 64 and blocks * split < 8 * device.sm_count and sizes.k >= split * 2 * least:
            split *= 2
        made = [
            Slot(name="num_warps", role="configuration", choices=(2, 4, 8), default=8),
            Slot(name="unroll", role="compute", choices=(1, 2, 4, 8), default=4 if along_k else 8),
            Slot(name="split_k", role="reduction", choices=(1, 2, 4, 8, 16, 32, 64), default=split),
        ]
        if along_k:
            made.append(Slot(name="warps_per_row", role="reduction", choices=(1, 2, 4, 8), default=1))
            made.append(Slot(name="rows_per_team", role="memory", choices=(1, 2, 4), default=2))
        return (*made, *vector_slots(few, matrix))

    def legal(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        hints: dict[str, int],
        device: DeviceSheet,
    ) -> bool:
        """Teams divide the block; every split has something to add."""
        assert isinstance(program, MatmulProgram)
        splits = int(setting["split_k"])
        if int(setting["num_warps"]) % int(setting.get("warps_per_row", 1)):
            return False
        return splits == 1 or splits * 64 <= extent(fold(program), hints).k

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """By the bytes of the large operand."""
        assert isinstance(program, MatmulProgram)
        sizes = extent(fold(program), hints)
        groups = -(-min(sizes.m, sizes.n) // int(setting["vectors"]))
        moved_bytes = sizes.batch * groups * (sizes.m + sizes.n) * sizes.k * BYTES[program.a.dtype]
        return 1e3 * moved_bytes / (0.92 * device.copy_bytes_per_s) + (0.006 if int(setting["split_k"]) > 1 else 0.003)

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        """One kernel, or two where k is split."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        around = epilogue(folded)
        cuda = rendered("cuda_matvec.cu.j2", _context(folded, setting, around))
        # The summing kernel shares its text with the tiled products; here every element goes alone.
        return cuda_source(folded, cuda, _host(folded, setting, around), values, around)


def _strides(program: MatmulProgram, matrix: str) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """Of the large operand along (outer, k), of the small one along (k, vector)."""
    a, b = program.a.strides, program.b.strides
    if matrix == "a":
        return (a[-2], a[-1]), (b[-2], b[-1])
    return (b[-1], b[-2]), (a[-1], a[-2])


def _context(program: MatmulProgram, setting: Setting, around: Epilogue) -> dict[str, Any]:
    matrix = str(setting["matrix"])
    large, small = (program.a, program.b) if matrix == "a" else (program.b, program.a)
    (large_outer, large_k), (small_k, small_vector) = _strides(program, matrix)
    vectors = vector_count(program, matrix)
    batch = [f"batch_{axis}" for axis in range(len(program.batch))]
    free = [f"long long {name}" for name in symbols(program)]
    parts = "float* __restrict__ parts"
    split = int(setting["split_k"]) > 1
    stored = [parts] if split else [around.pointers[name] for name in around.later if name not in around.operands]

    def base(name: str, strides: tuple[Size, ...], offset: Size) -> str:
        offsets = terms(strides, batch, offset)
        return f"{name} + {offsets}" if offsets else name

    return {
        **setting,
        "name": program.name,
        "element": STORAGE[program.a.dtype],
        "read": lambda raw: read(program.a.dtype, raw),
        "threads": 32 * int(setting["num_warps"]),
        "few": int(setting["vectors"]),
        "grouped": not isinstance(vectors, int),
        "vector_count": written_out(vectors),
        "along_k": large_along_k(program, matrix),
        "large_is_a": matrix == "a",
        "m": written_out(program.m),
        "n": written_out(program.n),
        "k": written_out(program.k),
        "size": written_out(program.m if matrix == "a" else program.n),
        "large": base(around.pointer_of[large.value], large.strides[:-2], large.offset),
        "small": base(around.pointer_of[small.value], small.strides[:-2], small.offset),
        "large_outer_stride": written_out(large_outer),
        "large_k_stride": written_out(large_k),
        "small_k_stride": written_out(small_k),
        "small_vector_stride": written_out(small_vector),
        "loads": around.loads,
        "stores": around.stores,
        "body": around.body,
        "batch_lines": around.batch_lines,
        "batch_count": around.batch_count,
        "padded_n": f"(({written_out(program.n)} + 3) / 4 * 4)",
        "kernel_parameters": ", ".join([*(around.pointers[each] for each in around.operands), *stored, *free]),
        "sum_parameters": ", ".join([f"const {parts}", *(around.pointers[name] for name in around.later), *free]),
    }


def _host(program: MatmulProgram, setting: Setting, around: Epilogue) -> Host:
    m, n, batch, name = written_out(program.m), written_out(program.n), around.batch_count, program.name
    matrix, split_k, warps = str(setting["matrix"]), int(setting["split_k"]), int(setting["num_warps"])
    along_k, vectors = large_along_k(program, matrix), vector_count(program, matrix)
    large, small = (program.a, program.b) if matrix == "a" else (program.b, program.a)
    size = m if matrix == "a" else n
    (_, _), (small_k, small_vector) = _strides(program, matrix)
    inner: Size = program.k if along_k else (program.m if matrix == "a" else program.n)
    steps = [*operand_steps(large, contiguous_axis(large) or -1), inner]
    accesses: list[tuple[str, str, list[Size]]] = [(around.pointer_of[large.value], large.dtype, steps)]
    if along_k and small_k == 1:
        steps = [*small.strides[:-2], small_vector, small.offset]
        accesses.append((around.pointer_of[small.value], small.dtype, steps))
    lines = [
        vector_line("vec", 16 // BYTES[large.dtype], accesses),
        f"stream = stream_of_{name}(torch.cuda.current_stream().cuda_stream)",
    ]
    teams = warps // int(setting.get("warps_per_row", 1)) * int(setting.get("rows_per_team", 1))
    lines.append(f"tile = {teams}" if along_k else "tile = 32 * vec")
    kernels = [Kernel(f"{name}_kernel")] + ([Kernel(f"{name}_sum_kernel")] if split_k > 1 else [])
    fetched = ", ".join(each.variable for each in kernels) if split_k > 1 else "kernel"
    variable = kernels[0].variable if split_k > 1 else "kernel"
    lines.append(f"{fetched} = compile_{name}(vec)")
    free = [f"cupy.int64({each})" for each in symbols(program)]
    stored = ["parts"] if split_k > 1 else [each for each in around.later if each not in around.operands]
    if split_k > 1:
        count = f"({split_k} * {batch} * {m} * (-(-{n} // 4) * 4),)"
        lines.append(f"parts = torch.empty({count}, dtype=torch.float32, device={around.operands[0]}.device)")
    arguments = ", ".join([*(f"{each}.data_ptr()" for each in (*around.operands, *stored)), *free])
    grid = f"-(-{size} // tile) * {split_k} * {batch}"
    if not isinstance(vectors, int):
        grid += f" * -(-{written_out(vectors)} // {setting['vectors']})"
    lines.append(f"{variable}(({grid},), ({32 * warps},), ({arguments},), stream=stream)")
    if split_k > 1:
        arguments = ", ".join([*(f"{each}.data_ptr()" for each in ("parts", *around.later)), *free])
        words = f"{batch} * {m} * (-(-{n} // 4) * 4)"
        lines.append(f"{kernels[1].variable}((-(-({words}) // 256),), (256,), ({arguments},), stream=stream)")
    return Host(
        macros=("vec",),
        kernels=tuple(kernels),
        body=tuple(lines),
        summary="Product of a matrix with few vectors, with its epilogue.",
        skip_if_empty=f"{m} * {n} * {written_out(product(program.batch))} == 0",
    )
