"""Product of a matrix with a few vectors in Triton: bound by reading the matrix once.

No tensor cores: fp32 products are exact to fp32, sums are kept in fp32 by many threads and joined at the end, so the
error is below that of one running sum.
"""

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import Size, value
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .matmul_program import Extent, extent, fold, operand_dtype
from .triton_matmul_source import Pieces, Values, batch_indices, pieces, plus, rendered, tile_terms, written_out

MOST_VECTORS = 4


class TritonMatvec:
    """Groups of up to four vectors; k split over programs, joined by a second kernel."""

    name = "triton_matvec"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """A product whose m or n is at most four; where that is a symbol, calls with more vectors go in groups."""
        if not isinstance(program, MatmulProgram) or operand_dtype(program) is None:
            return False
        return few_vectors(fold(program), hints, MOST_VECTORS) > 0

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """How many elements a program reads at once along each axis, and how k is divided."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        sizes = extent(folded, hints)
        few, matrix = few_vectors(folded, hints, MOST_VECTORS), matrix_side(folded, hints)
        along_k = large_along_k(folded, matrix)
        # Enough bytes in flight need about 4096 elements a program, in runs along the contiguous axis.
        run = min(1024, 1 << max(5, (sizes.k if along_k else outer_size(sizes, matrix)) - 1).bit_length())
        other = max(1, 4096 // run)
        default_k, default_tile = (run, other) if along_k else (other, run)
        return (
            Slot(name="tile", role="memory", choices=_around(default_tile), default=default_tile),
            Slot(name="tile_k", role="memory", choices=_around(default_k), default=default_k),
            Slot(name="num_warps", role="configuration", choices=(2, 4, 8), default=4),
            Slot(name="num_stages", role="compute", choices=(1, 2, 3), default=1),
            Slot(
                name="split_k",
                role="reduction",
                choices=(1, 2, 4, 8, 16, 32, 64),
                default=_default_split(outer_size(sizes, matrix), sizes, default_tile, default_k, device),
            ),
            *vector_slots(few, matrix),
        )

    def legal(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        hints: dict[str, int],
        device: DeviceSheet,
    ) -> bool:
        """Each thread has 4 to 64 elements for each vector, and each split something to add."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        elements = int(setting["tile"]) * int(setting["tile_k"]) // (32 * int(setting["num_warps"]))
        splits = int(setting["split_k"])
        enough = splits == 1 or (splits - 1) * int(setting["tile_k"]) < extent(folded, hints).k
        return elements >= 4 and elements * int(setting["vectors"]) <= 128 and enough

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """By the bytes of the large operand."""
        assert isinstance(program, MatmulProgram)
        sizes = extent(fold(program), hints)
        groups = -(-min(sizes.m, sizes.n) // int(setting["vectors"]))
        moved_bytes = sizes.batch * groups * (sizes.m + sizes.n) * sizes.k * BYTES[program.a.dtype]
        # Sums of several vectors take the registers that loads under way would need.
        reached = device.copy_bytes_per_s * (0.95 if int(setting["vectors"]) == 1 else 0.8)
        return 1e3 * moved_bytes / reached + (0.006 if int(setting["split_k"]) > 1 else 0.003)

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        """One kernel, or two where k is split."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        parts = pieces(folded, values)
        return KernelSource(
            imports=parts.imports,
            code=rendered("triton_matvec.py.j2", _context(folded, setting, parts)),
            function=f"run_{folded.name}",
            reads=folded.reads,
            symbols=parts.symbols,
        )


def matrix_side(program: MatmulProgram, hints: dict[str, int]) -> str:
    """Which operand is the matrix, "a" or "b"; the other holds the vectors."""
    sizes = extent(program, hints)
    return "a" if sizes.n <= sizes.m else "b"


def vector_count(program: MatmulProgram, matrix: str) -> Size:
    return program.n if matrix == "a" else program.m


def few_vectors(program: MatmulProgram, hints: dict[str, int], most: int) -> int:
    """How many vectors a program multiplies at once: all, a power of two where a symbol counts them, 0 if too many."""
    count = vector_count(program, matrix_side(program, hints))
    at_hints = value(count, hints)
    if not 1 <= at_hints <= most:
        return 0
    return at_hints if isinstance(count, int) else 1 << (at_hints - 1).bit_length()


def vector_slots(few: int, matrix: str) -> tuple[Slot, Slot]:
    """What rendering has to know of the sizes; nothing to choose."""
    return (
        Slot(name="vectors", role="memory", choices=(few,), default=few, about="vectors at once"),
        Slot(name="matrix", role="memory", choices=(matrix,), default=matrix, about="the operand read once"),
    )


def outer_size(sizes: Extent, matrix: str) -> int:
    return sizes.m if matrix == "a" else sizes.n


def large_along_k(program: MatmulProgram, matrix: str) -> bool:
    """Whether the large operand is contiguous along k."""
    return program.a.strides[-1] == 1 if matrix == "a" else program.b.strides[-2] == 1


def _around(size: int) -> tuple[int, ...]:
    return tuple(each for each in (size // 4, size // 2, size, size * 2, size * 4) if each >= 1)


def _default_split(outer: int, sizes: Extent, tile: int, tile_k: int, device: DeviceSheet) -> int:
    count = sizes.batch * -(-outer // tile)
    split = 1
    while split < 64 and count * split < 8 * device.sm_count and sizes.k >= split * 2 * 2 * tile_k:
        split *= 2
    return split


def _context(program: MatmulProgram, setting: Setting, parts: Pieces) -> dict[str, object]:
    a_is_large, few = setting["matrix"] == "a", int(setting["vectors"])
    vectors = vector_count(program, str(setting["matrix"]))
    grouped = not isinstance(vectors, int)
    large, small = (program.a, program.b) if a_is_large else (program.b, program.a)
    # Strides of the large operand as (outer, k), of the small one as (k, vector).
    large_outer, large_k = large.strides[-2:] if a_is_large else large.strides[:-3:-1]
    small_k, small_vector = small.strides[-2:] if a_is_large else small.strides[:-3:-1]
    batch = batch_indices(program)
    large_name, small_name = parts.pointer_of[large.value], parts.pointer_of[small.value]
    large_terms = tile_terms(
        (*large.strides[:-2], large_outer, large_k), [*batch, "outer[:, None]", "depth[None, :]"], large.offset
    )
    small_pointers = [
        plus(
            small_name,
            tile_terms(
                (*small.strides[:-2], small_vector, small_k),
                [*batch, f"vector_{vector}" if grouped else str(vector), "depth[None, :]"],
                small.offset,
            ),
        )
        for vector in range(few)
    ]
    return {
        **setting,
        "name": program.name,
        "m": written_out(program.m),
        "n": written_out(program.n),
        "k": written_out(program.k),
        "size": written_out(program.m if a_is_large else program.n),
        "large_is_a": a_is_large,
        "few": few,
        "groups": f" * triton.cdiv({vectors}, {few})" if grouped else "",
        "grouped": grouped,
        "vector_count": written_out(vectors),
        "padded": 1 << (few - 1).bit_length(),
        "large_pointers": plus(large_name, large_terms),
        "large_k_stride": written_out(large_k),
        "small_pointers": small_pointers,
        "small_k_stride": written_out(small_k),
        "sum_tile": 128,
        "prelude": parts.prelude,
        **parts.context((large_name, small_name), split=int(setting["split_k"]) > 1),
    }
