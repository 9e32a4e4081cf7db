"""Attention in Triton: a tile of queries a program walks over the keys, and neither scores nor weights reach memory.

The softmax is kept up to date as scores come (Milakov and Gimelshein, arXiv 1805.02867; Dao et al., arXiv 2205.14135):
the largest score of a row so far, the sum of the exponentials below it, and the weighted sum of values, both of which
shrink when a larger score comes.
"""

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import product, value
from ..attention_tiles import fits_tiles
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .matmul_program import epilogue_bytes_moved, epilogue_steps
from .triton_expression import HALVES, Printer
from .triton_matmul import dot_context
from .triton_matmul_settings import PRECISION
from .triton_matmul_source import (
    Pieces,
    Values,
    epilogue_lines,
    operand_pointers,
    pieces,
    rendered,
    written_out,
)

TILES = ((128, 64), (64, 64), (64, 32), (32, 32), (32, 16), (16, 16))
"""Queries and keys, the best first where they fit; fp32 begins with the second."""
SPLIT = PRECISION.model_copy(update={"choices": ("tf32x3", "bf16x6")})
"""Plain fp32 products of such tiles spill most of what they hold."""
SCORE_STEPS = 14
"""Instructions a score besides the program's own: masking, the maximum, the exponential, the sum."""


class TritonAttention:
    """One program a tile of queries and matrix of the batch; keys and values pipelined."""

    name = "triton_attention"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """Attention whose rows lie in tiles whole, all factors of one type."""
        return isinstance(program, MatmulProgram) and fits_tiles(program, hints)

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """Tiles of queries and keys, warps, pipeline depth; how fp32 factors are split."""
        assert isinstance(program, MatmulProgram)
        half = program.b.dtype in HALVES
        stages = 3 if half else 2
        tile_m, tile_n, warps = default_tiles(program, stages, Sizes(program, hints), device)
        made = [
            Slot(name="tile_m", role="configuration", choices=(16, 32, 64, 128), default=tile_m, about="queries"),
            Slot(name="tile_n", role="configuration", choices=(16, 32, 64, 128), default=tile_n, about="keys a step"),
            Slot(name="num_warps", role="configuration", choices=(2, 4, 8), default=warps),
            Slot(name="num_stages", role="compute", choices=(1, 2, 3, 4), default=stages),
        ]
        return (*made, SPLIT) if program.b.dtype == "float32" else tuple(made)

    def legal(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        hints: dict[str, int],
        device: DeviceSheet,
    ) -> bool:
        """Sums in registers, tiles in shared memory, and a tile of queries that is not mostly empty."""
        assert isinstance(program, MatmulProgram)
        return possible(program, setting, Sizes(program, hints), device)

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """By waves of programs, each a product at a rate that falls with its tiles beside the work on its scores.

        The rates are guesses from those of products on an H200: nobody has timed this kernel.
        """
        assert isinstance(program, MatmulProgram)
        assert program.scores is not None
        sizes, tile_m, tile_n = Sizes(program, hints), int(setting["tile_m"]), int(setting["tile_n"])
        rates = {"tf32x3": 80e12, "bf16x6": 60e12}
        rate = rates.get(str(setting.get("precision")), 550e12) / device.sm_count
        share: float = min(1.0, (tile_m / 128) ** 0.5) * min(1.0, (tile_n / 64) ** 0.3)
        columns: float = sizes.columns
        if sizes.ahead is not None:
            columns = min(columns, (sizes.columns + tile_m) / 2)
        if sizes.ahead is not None and sizes.behind is not None:
            columns = min(columns, max(0, sizes.ahead + sizes.behind) + tile_m + tile_n)
        product_s = 2 * tile_m * columns * (sizes.tile_depth + sizes.tile_width) / (rate * share)
        scores_s = tile_m * columns * (SCORE_STEPS + epilogue_steps(program.scores)) / 128 / 1.75e9
        # Two programs on a multiprocessor work on scores and multiply beside each other.
        together = 1 if shared_bytes(program, setting, sizes) > device.shared_bytes_per_block / 2 else 2
        own_s = product_s + scores_s if together == 1 else max(product_s, scores_s) + 0.3 * min(product_s, scores_s)
        waves = -(-sizes.batch * -(-sizes.rows // tile_m) // device.sm_count)
        factors = sizes.rows * sizes.depth + sizes.columns * (sizes.depth + sizes.width)
        moved = sizes.batch * factors * BYTES[program.b.dtype]
        moved += epilogue_bytes_moved(program, hints) + epilogue_bytes_moved(program.scores, hints)
        return 1e3 * max(waves * own_s, moved / (0.85 * device.copy_bytes_per_s)) + 0.003

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        """One kernel."""
        assert isinstance(program, MatmulProgram)
        parts = pieces(program, values)
        printer = Printer(unit="[1, 1]", exact=program.b.dtype not in HALVES)
        context = _context(program, setting, parts, printer)
        return KernelSource(
            imports=tuple(dict.fromkeys([*parts.imports, *printer.imports()])),
            code=rendered("triton_attention.py.j2", context),
            function=f"run_{program.name}",
            reads=program.reads,
            symbols=parts.symbols,
        )


class Sizes:
    """A program's sizes as numbers, at the hints of its symbols."""

    def __init__(self, program: MatmulProgram, hints: dict[str, int]) -> None:
        assert program.scores is not None
        assert program.a.softmax is not None
        self.batch = value(product(program.batch), hints)
        self.rows, self.columns = value(program.m, hints), value(program.k, hints)
        self.depth, self.width = value(program.scores.k, hints), value(program.n, hints)
        self.tile_depth, self.tile_width = whole(self.depth), whole(self.width)
        self.ahead, self.behind = program.a.softmax.ahead, program.a.softmax.behind


def whole(size: int) -> int:
    """The power of two that holds a row, at least what tensor cores take."""
    return max(16, 1 << (max(size, 1) - 1).bit_length())


def default_tiles(program: MatmulProgram, stages: int, sizes: Sizes, device: DeviceSheet) -> tuple[int, int, int]:
    """Queries, keys and warps: the largest tiles that fit, wide rows on more warps."""
    for tile_m, tile_n in TILES[program.b.dtype not in HALVES :]:
        for warps in (4, 8) if max(sizes.depth, sizes.width) <= 64 else (8, 4):
            setting: Setting = {"tile_m": tile_m, "tile_n": tile_n, "num_warps": warps, "num_stages": stages}
            if possible(program, setting, sizes, device):
                return tile_m, tile_n, warps
    return 16, 16, 2


def possible(program: MatmulProgram, setting: Setting, sizes: Sizes, device: DeviceSheet) -> bool:
    """Whether registers and shared memory hold the tiles, and queries and keys fill half of them."""
    tile_m, tile_n, warps = (int(setting[name]) for name in ("tile_m", "tile_n", "num_warps"))
    half = program.b.dtype in HALVES
    most = 144 if half else 64  # What is split in three takes registers beside the sums.
    if not 4 <= held(program, tile_m, tile_n, warps, sizes) <= most or tile_m < 8 * warps:
        return False
    # Keys and values are split in registers too, on their way to shared memory.
    if not half and tile_n * max(sizes.tile_depth, sizes.tile_width) > 64 * 32 * warps:
        return False
    if any(tile > 16 and tile >= 2 * size for tile, size in ((tile_m, sizes.rows), (tile_n, sizes.columns))):
        return False
    return shared_bytes(program, setting, sizes) <= device.shared_bytes_per_block


def held(program: MatmulProgram, tile_m: int, tile_n: int, warps: int, sizes: Sizes) -> int:
    """What a thread holds of scores, of what is read beside them, and of sums, in registers."""
    assert program.scores is not None
    tiles = sum(load.strides[-1] != 0 and load.strides[-2] != 0 for load in program.scores.loads)
    # Of what is read, the addresses too, which are as wide as two.
    return tile_m * (tile_n * (1 + 2 * tiles) + sizes.tile_width) // (32 * warps)


def shared_bytes(program: MatmulProgram, setting: Setting, sizes: Sizes) -> int:
    """Queries, and keys and values of every stage; of fp32 a second part of queries, keys and values."""
    stages, split = max(2, int(setting["num_stages"])), int(program.b.dtype == "float32")
    queries = (1 + split) * int(setting["tile_m"]) * sizes.tile_depth
    step = int(setting["tile_n"]) * (sizes.tile_depth + sizes.tile_width)
    return (queries + (stages + split) * step) * BYTES[program.b.dtype]


def _context(program: MatmulProgram, setting: Setting, parts: Pieces, printer: Printer) -> dict[str, object]:
    softmax = program.a.softmax
    assert softmax is not None
    scores = softmax.scores
    lines = epilogue_lines(scores, parts.pointer_of, printer)
    exponentials = {name: printer.exp(name) for name in ("below", "fall")}
    kind = str(setting.get("precision", program.b.dtype))
    return {
        **setting,
        "name": program.name,
        "m": written_out(program.m),
        "n": written_out(program.k),
        "depth": written_out(scores.k),
        "width": written_out(program.n),
        "ahead": softmax.ahead,
        "behind": softmax.behind,
        "zero_rows": softmax.zero_rows,
        "score": "acc" if softmax.score == "acc" else f"v_{softmax.score}",
        "queries": operand_pointers(program, scores.a, parts, ("rows[:, None]", "depth[None, :]")),
        "keys": operand_pointers(program, scores.b, parts, ("depth[:, None]", "columns[None, :]")),
        "values": operand_pointers(program, program.b, parts, ("columns[:, None]", "width[None, :]")),
        "score_lines": lines,
        "exponentials": exponentials,
        "half": program.b.dtype in HALVES,
        "type": f"tl.{program.b.dtype}",
        **dot_context(kind, (*parts.prelude, *printer.prelude())),
        **parts.context(parts.pointer_of[name] for name in program.reads),
    }
