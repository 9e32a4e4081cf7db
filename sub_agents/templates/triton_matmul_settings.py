"""Tile sizes, pipelines and resources of tiled matrix products: defaults, and what a setting takes."""

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import MatmulProgram
from ..slots import Setting, Slot
from .matmul_program import Extent, epilogue_share, extent, products, tiled_dtype
from .triton_matmul_operands import descriptors_possible, vectors_possible

PRECISION = Slot(
    name="precision",
    role="compute",
    choices=("tf32x3", "bf16x6", "ieee"),
    default="tf32x3",
    about="how fp32 factors are split for tensor cores",
)
CONVOLVED = PRECISION.model_copy(update={"choices": ("tf32", *PRECISION.choices), "default": "tf32"})
"""Of convolutions. Where the reference is computed in fp32, the judge refuses what tf32 gives."""


def best_tile(sizes: Extent, device: DeviceSheet, *, wide: bool, tile_k: int) -> tuple[int, int, int]:
    """Tile sizes and split of k with the best estimated throughput."""
    # (tile_m, tile_n, share of peak that a full grid of such tiles reaches)
    tiles = [(128, 128, 0.85), (64, 128, 0.7), (128, 64, 0.7), (64, 64, 0.55), (32, 64, 0.3), (64, 32, 0.3)]
    tiles += [(16, 128, 0.25), (128, 16, 0.25), (16, 64, 0.2), (64, 16, 0.2)]
    if wide:
        tiles = [(128, 256, 1.0), (256, 128, 0.98), *tiles]

    def rate(choice: tuple[int, int, int, float]) -> float:
        tile_m, tile_n, split_k, share = choice
        across_m, across_n = -(-sizes.m // tile_m), -(-sizes.n // tile_n)
        used = sizes.m / (across_m * tile_m) * sizes.n / (across_n * tile_n)
        count = sizes.batch * across_m * across_n * split_k
        # Whole waves of one tile a multiprocessor, and for each split the parts' way through memory.
        filled = count / (-(-count // device.sm_count) * device.sm_count)
        return share * used * filled * (1 - 0.04 * split_k.bit_length() if split_k > 1 else 1.0)

    splits = [s for s in (1, 2, 4, 8, 16, 32) if s == 1 or s * 8 * tile_k <= sizes.k]
    choices = [(m, n, split, share) for m, n, share in tiles for split in splits]
    return max(choices, key=rate)[:3]


def default_setting(program: MatmulProgram, hints: dict[str, int], device: DeviceSheet) -> Setting:
    """The best tile with a pipeline that fits it; k split where even small tiles leave multiprocessors idle."""
    sizes = wide_extent(program, hints)
    half = tiled_dtype(program) != "float32"
    tile_k = 64 if half else 32
    short = sizes.k <= tile_k
    tile_k = min(tile_k, max(16, 1 << max(sizes.k - 1, 0).bit_length()))
    if program.also is None and min(sizes.m, sizes.n) <= MOST_SKINNY < max(sizes.m, sizes.n) and half:
        return skinny_setting(sizes, device) | {"loads": _loads(program, hints, device)}
    # Where the epilogue is a good part of the work, two programs on a multiprocessor hide it behind each other's
    # products: that takes tiles half as large.
    wide = half and vectors_possible(program, hints) and epilogue_share(program, sizes) < 0.2
    tile_m, tile_n, split_k = best_tile(sizes, device, wide=wide, tile_k=tile_k)
    if program.also is not None:
        # Each sum is as wide as half a tile: 128 x 64 twice where one product would have 128 x 128.
        tile_m, tile_n, split_k = (tile_m, tile_n, 1) if tile_n >= 64 else (max(64, tile_m), 64, 1)
    if short and whole_loads(program):
        # Bound by the tiles that the epilogue reads and writes: many small programs keep more of them under way.
        tile_m, tile_n, split_k = min(tile_m, 64), min(tile_n, 128), 1
    big = tile_m * tile_n >= 128 * 128
    # Four stages of the largest tile just fit, and bring 7% over three; of smaller ones two programs fit with three.
    stages = 3 if big and tile_m * tile_n < 128 * 256 else 4
    return {
        "tile_m": tile_m,
        "tile_n": tile_n // products(program),
        "tile_k": tile_k,
        "num_warps": 8 if big else 4,
        "num_stages": max(2, min(stages, -(-sizes.k // (tile_k * split_k)))),
        "split_k": split_k,
        "epilogue_loads": "early" if short and sizes.k > 32 else "late",
        "loads": _loads(program, hints, device),
    }


def whole_loads(program: MatmulProgram) -> bool:
    """Whether the epilogue reads tensors as large as the result."""
    return any(load.strides[-2] != 0 and load.strides[-1] != 0 for load in program.loads)


def flight_bytes(program: MatmulProgram, setting: Setting, hints: dict[str, int]) -> float | None:
    """Bytes that a multiprocessor has under way where the loop is too short to keep it busy; None for longer loops."""
    tile_m, tile_n, tile_k = (int(setting[f"tile_{axis}"]) for axis in "mnk")
    if extent(program, hints).k > 2 * tile_k * int(setting["split_k"]):
        return None
    element_bytes = BYTES[program.a.dtype]
    shared = shared_bytes(widened(program, setting), program.a.dtype)
    factor_bytes = (tile_m + products(program) * tile_n) * tile_k * element_bytes
    loaded = sum(load.strides[-2] != 0 and load.strides[-1] != 0 for load in program.loads)
    # One after the other; asked for at once they take registers that other programs would need.
    share = 0.5 if setting.get("epilogue_loads", "late") == "late" else 0.4
    held = residents(shared, widened(program, setting), most=16)
    return share * held * (factor_bytes + loaded * tile_m * tile_n * element_bytes)


def widened(program: MatmulProgram, setting: Setting) -> Setting:
    """A setting as for one product with the sums and right factors of all."""
    return {**setting, "tile_n": int(setting["tile_n"]) * products(program)}


def wide_extent(program: MatmulProgram, hints: dict[str, int]) -> Extent:
    """Sizes as for one product with the columns of all."""
    sizes = extent(program, hints)
    return sizes.model_copy(update={"n": sizes.n * products(program)})


MOST_SKINNY = 16


def skinny_setting(sizes: Extent, device: DeviceSheet) -> Setting:
    """For a product bound by reading one operand: all programs run at once, each with many loads under way."""
    short, long = sorted((sizes.m, sizes.n))
    rows = sizes.batch * long
    tile = 128 if rows >= 128 * 7 * device.sm_count // 4 else 64 if rows >= 64 * 2 * device.sm_count else 32
    count = sizes.batch * -(-long // tile) * -(-short // 16)
    split = 1
    while split < 32 and 2 * split * count <= 4 * device.sm_count and sizes.k >= 2 * split * 4 * 64:
        split *= 2
    tile_m, tile_n = (16, tile) if sizes.m <= sizes.n else (tile, 16)
    # Longer rows of the large factor a step: fewer, longer runs of memory.
    tile_k = 128 if tile < 128 and sizes.k >= 128 * 5 * split else 64
    return {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_k": tile_k,
        "num_warps": 4 if tile >= 64 else 2,
        "num_stages": max(2, min(5, -(-sizes.k // (tile_k * split)))),
        "split_k": split,
    }


def _loads(program: MatmulProgram, hints: dict[str, int], device: DeviceSheet) -> str:
    half = tiled_dtype(program) != "float32"
    return "descriptor" if half and device.arch >= "sm_90" and descriptors_possible(program, hints) else "pointer"


def epilogue_slot(program: MatmulProgram, tile_elements: int) -> Slot:
    """Halves by default where a large tile meets tensors as large: their registers come on top of the accumulator."""
    loads_tiles = any(load.strides[-2] != 0 and load.strides[-1] != 0 for load in program.loads)
    default = 2 if tile_elements > 128 * 128 and (loads_tiles or len(program.body) > 4) else 1
    return Slot(
        name="epilogue_parts", role="compute", choices=(1, 2), default=default, about="pieces of a tile stored in turn"
    )


def shared_bytes(setting: Setting, dtype: str) -> int:
    """Shared memory of the operand pipeline, and for fp32 of the split parts."""
    tile_m, tile_n, tile_k = (int(setting[f"tile_{axis}"]) for axis in "mnk")
    stages = int(setting["num_stages"])
    pipeline = (tile_m + tile_n) * tile_k * BYTES[dtype] * stages
    return pipeline + (2 * tile_n * tile_k * 4 if dtype == "float32" else 0)


def epilogue_bytes(program: MatmulProgram, setting: Setting) -> int:
    """Shared memory that a persistent kernel keeps beside its pipeline to bring the result into rows."""
    if not setting["persistent"]:
        return 0
    widest = max(4 if store.dtype in ("float32", "int32") else BYTES.get(store.dtype, 1) for store in program.stores)
    return int(setting["tile_m"]) * int(setting["tile_n"]) * widest // int(setting["epilogue_parts"])


def residents(shared_bytes: int, setting: Setting, most: int = 4) -> int:
    """Programs that a multiprocessor of an H100 or H200 holds at once, for the grid of a persistent kernel."""
    threads = 32 * int(setting["num_warps"])
    registers = int(setting["tile_m"]) * int(setting["tile_n"]) // threads + 50
    return max(1, min(most, 227 * 1024 // max(shared_bytes, 1), 65536 // (threads * registers)))
