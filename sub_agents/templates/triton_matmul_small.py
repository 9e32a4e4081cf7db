"""Many products of small matrices in Triton: whole matrices in one tile, several of them under way in each program.

Bound by memory where each matrix is small: no loop over k, no tiles that mostly hold nothing. A call whose matrices are
too large for one tile goes to the tiled kernel.
"""

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .matmul_program import Extent, epilogue_bytes_moved, extent, fold, operand_dtype
from .triton_matmul import dot_context, tiled_context
from .triton_matmul_settings import PRECISION
from .triton_matmul_source import Pieces, Values, operand_pointers, pieces, rendered, written_out

MOST = 64
"""Largest size along any axis."""
LEAST_MATRICES = 128


class TritonMatmulSmall:
    """One tile a matrix, a persistent grid over the batch."""

    name = "triton_matmul_small"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """Batches of a hundred matrices and more, up to 64 x 64."""
        if not isinstance(program, MatmulProgram) or operand_dtype(program) is None:
            return False
        sizes = extent(fold(program), hints)
        return max(sizes.m, sizes.n, sizes.k) <= MOST and sizes.batch >= LEAST_MATRICES

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """Warps, matrices under way, programs a multiprocessor."""
        assert isinstance(program, MatmulProgram)
        made = [
            Slot(name="num_warps", role="configuration", choices=(1, 2, 4, 8), default=4),
            Slot(name="num_stages", role="compute", choices=(1, 2, 3, 4), default=3),
            Slot(
                name="programs",
                role="configuration",
                choices=(1, 2, 3, 4, 6, 8),
                default=2,
                about="programs a multiprocessor",
            ),
        ]
        if operand_dtype(program) == "float32":
            made.append(PRECISION)
        return tuple(made)

    def legal(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        hints: dict[str, int],
        device: DeviceSheet,
    ) -> bool:
        """At most 64 sums a thread; the stages of all programs fit a multiprocessor's shared memory."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        tile_m, tile_n, tile_k = tiles(extent(folded, hints))
        sums = tile_m * tile_n // (32 * int(setting["num_warps"]))
        stage_bytes = (tile_m + tile_n) * tile_k * BYTES[folded.a.dtype]
        # What is split or brought into rows takes a stage of its own where there is only one.
        shared = stage_bytes * max(2, int(setting["num_stages"])) * int(setting["programs"])
        threads = 32 * int(setting["num_warps"]) * int(setting["programs"])
        return 2 <= sums <= 64 and shared <= device.shared_bytes_per_block and 128 <= threads <= 1024

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """By bytes, and by products of padded tiles."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        sizes = extent(folded, hints)
        tile_m, tile_n, tile_k = tiles(sizes)
        operand_bytes = sizes.batch * (sizes.m + sizes.n) * sizes.k * BYTES[folded.a.dtype]
        moved_s = (operand_bytes + epilogue_bytes_moved(folded, hints)) / (0.9 * device.copy_bytes_per_s)
        rates = {"tf32x3": 80e12, "bf16x6": 60e12, "ieee": 25e12}
        rate = rates.get(str(setting.get("precision")), 300e12)
        return 1e3 * max(moved_s, 2 * sizes.batch * tile_m * tile_n * tile_k / rate) + 0.003

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        """A kernel for small matrices and one for those that a call may bring instead."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        parts = pieces(folded, values)
        code = rendered("triton_matmul_small.py.j2", _context(folded, setting, parts))
        plain = folded.model_copy(update={"name": f"{folded.name}_tiled"})
        tiled = tiled_context(plain, _TILED | {"precision": setting.get("precision", "tf32x3")}, parts)
        return KernelSource(
            imports=(*parts.imports, "import functools"),
            code=code + "\n\n" + rendered("triton_matmul.py.j2", tiled | {"prelude": ()}),
            function=f"run_{folded.name}",
            reads=folded.reads,
            symbols=parts.symbols,
        )


_TILED: Setting = {
    "tile_m": 64,
    "tile_n": 64,
    "tile_k": 32,
    "num_warps": 4,
    "num_stages": 3,
    "group_m": 8,
    "split_k": 1,
    "persistent": False,
    "epilogue_parts": 1,
    "loads": "pointer",
}


def tiles(sizes: Extent) -> tuple[int, int, int]:
    """Powers of two that hold a matrix, at least what tensor cores take."""

    def whole(size: int) -> int:
        return max(16, 1 << (max(size, 1) - 1).bit_length())

    return whole(sizes.m), whole(sizes.n), whole(sizes.k)


def _context(program: MatmulProgram, setting: Setting, parts: Pieces) -> dict[str, object]:
    fp32 = operand_dtype(program) == "float32"
    kind = str(setting["precision"]) if fp32 else program.a.dtype
    return {
        **setting,
        "name": program.name,
        "most": MOST,
        "m": written_out(program.m),
        "n": written_out(program.n),
        "k": written_out(program.k),
        "a_pointers": operand_pointers(program, program.a, parts, ["rows[:, None]", "depth[None, :]"]),
        "b_pointers": operand_pointers(program, program.b, parts, ["depth[:, None]", "columns[None, :]"]),
        **dot_context(kind, parts.prelude),
        **parts.context(parts.pointer_of[each.value] for each in (program.a, program.b)),
    }
