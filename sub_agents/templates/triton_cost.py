"""How long a reduction should take: a crude model that ranks templates, from traffic, parallelism and launches."""

from dataclasses import dataclass

from ...state.device import DeviceSheet
from ...state.program import LoopProgram
from ...state.sizes import product, value
from .triton_reduction import row_printer, split_stores
from .triton_row import RowShape, row_shape, tile_code

LAUNCH_MS = 0.003
"""GPU time between dependent kernels of one stream."""
SOLO_GAIN = 1.5
"""How much more than its share of the bandwidth one multiprocessor can draw when others idle."""


@dataclass(frozen=True)
class Trips:
    """What a kernel does with the data: how often it reads it, over how many programs and launches."""

    reads: float
    programs: int
    launches: int = 1
    in_flight: int = 1
    """Programs that a multiprocessor holds at once."""


def _tile_bytes(program: LoopProgram, hints: dict[str, int]) -> tuple[int, int]:
    """Bytes read and written by one trip over the whole space."""
    _, tile_stores = split_stores(tile_code(program, row_printer(True), (True, True)))
    shape = row_shape(program, hints)
    space = value(product(program.space), hints)
    return (shape.tiles - len(tile_stores)) * space * shape.element_bytes, len(
        tile_stores
    ) * space * shape.element_bytes


def has_tile_stores(program: LoopProgram) -> bool:
    """Whether the kernel writes whole tiles, not only one value a row."""
    return bool(split_stores(tile_code(program, row_printer(True), (True, True)))[1])


def cached_rereads(shape: RowShape, in_flight: int, device: DeviceSheet, read_bytes: int) -> float:
    """The share of a row's second reading that comes from L2."""
    row_bytes = read_bytes / max(1, shape.outer)
    active = row_bytes * min(shape.outer, device.sm_count * in_flight)
    return min(1.0, 0.5 * device.l2_bytes / max(1.0, active))


def estimated_ms(program: LoopProgram, trips: Trips, hints: dict[str, int], device: DeviceSheet) -> float:
    """Milliseconds at copy bandwidth, stretched where there are too few programs."""
    shape = row_shape(program, hints)
    read, written = _tile_bytes(program, hints)
    repeated = (trips.reads - 1) * (1 - 0.8 * cached_rereads(shape, trips.in_flight, device, read))
    moved = read * (1 + repeated) + written
    stretch = max(1.0, device.sm_count / max(1, trips.programs) / SOLO_GAIN)
    return 1e3 * moved / device.copy_bytes_per_s * stretch + LAUNCH_MS * trips.launches
