"""How long a pointwise kernel should take, by traffic, bytes in flight and instructions."""

from dataclasses import dataclass
from functools import lru_cache

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import Load, LoopProgram, Store
from ...state.sizes import product, value
from . import triton_loop as loop
from .triton_expression import Printer
from .triton_instructions import ISSUE_RATE, LAUNCH_MS, reached, statement_cost
from .triton_pointwise_tile import is_transposed, numel_of, tile_of


@dataclass(frozen=True)
class PointwiseShape:
    """What a setting means for the time of a pointwise kernel."""

    tile: str
    block: int
    columns: int
    num_warps: int
    exact: bool
    programs: int = 0


def pointwise_ms(program: LoopProgram, shape: PointwiseShape, hints: dict[str, int], device: DeviceSheet) -> float:
    """Milliseconds by the cost model."""
    facts = _pointwise_work(program, tuple(sorted(hints.items())), shape)
    numel, threads = numel_of(program, hints), 32 * shape.num_warps
    tiles = max(1, -(-numel // shape.block))
    launched = min(tiles, shape.programs) if shape.programs else tiles
    registers = 24 + shape.block / threads * facts.streams
    # Few of a thread's elements of all streams are alive at once.
    resident = max(1, min(32, 2048 // threads, int(65536 // (max(32, (registers + 24) / 2) * threads))))
    held = min(resident, max(1.0, launched / device.sm_count))
    # A looping program waits for its tile before it asks for the next.
    moved = facts.read_bytes + facts.written_bytes
    # Measured: 16 bytes a thread and stream are enough where a multiprocessor is full of threads.
    flight = 1.5 * held * shape.block * moved / max(1, numel) * (0.7 if shape.programs else 1.0)
    memory = moved / device.copy_bytes_per_s / max(1e-3, reached(flight))
    busy = min(1.0, launched / device.sm_count) * min(1.0, held * shape.num_warps / 8)
    start = 6 * threads / shape.block
    issue = numel * facts.padding * (facts.instructions + start) / (device.sm_count * ISSUE_RATE * busy)
    total = max(memory, issue) + 0.1 * min(memory, issue)
    return 1e3 * total * (3.0 if registers > 200 else 1.0) + LAUNCH_MS


@dataclass(frozen=True)
class _Work:
    """Bytes, and instructions of one lane an element."""

    read_bytes: float
    written_bytes: float
    instructions: float
    padding: float
    streams: int


@lru_cache(maxsize=1024)
def _pointwise_work(program: LoopProgram, known: tuple[tuple[str, int], ...], shape: PointwiseShape) -> _Work:
    """Of a program at the hinted sizes in one tile shape."""
    hints = dict(known)
    numel, two_sided = numel_of(program, hints), shape.tile == "two_sided"
    columns = max(1, shape.columns) if two_sided else 0
    rows = shape.block // columns if two_sided else shape.block
    code = tile_of(program, Printer(), two_sided, (rows, columns))
    extents = [value(side.extent, hints) for side in (code.rows, code.columns) if side is not None]
    padding = 1.0
    for extent, size in zip(extents, (rows, columns), strict=False):
        padding *= -(-extent // size) * size / max(1, extent)
    last = value(code.columns.extent, hints) if code.columns is not None else numel
    moved = dict.fromkeys(("read", "written"), 0.0)
    cost = 1.0 if padding > 1 else 0.0
    for access in loop.accesses(program):
        size = BYTES.get(access.dtype, 1)
        touched = value(product(n for n, s in zip(program.space, access.strides, strict=True) if s != 0), hints)
        kind = "read" if isinstance(access, Load) else "written"
        across = is_transposed(program) and not two_sided and access.strides[-1] not in (0, 1)
        moved[kind] += touched * size * (4 if across else 1)
        cost += _access_cost(code, access, last, (rows, columns), shape)
    if not two_sided:
        cost += _split_cost(code, hints)
    for statement in program.body:
        if statement.op != "iota" and all(code.varies[statement.name]) or not two_sided:
            cost += statement_cost(code, statement, shape.exact)
    return _Work(moved["read"], moved["written"], cost, padding, len(loop.accesses(program)))


def _split_cost(code: loop.TileCode, hints: dict[str, int]) -> float:
    """Divisions that split a flat index: by a power of two a shift, else a multiplication and more."""
    broken = [a for a in loop.accesses(code.program) if code.rows.collapsed(a.strides) is None]
    wide = all(a.strides[-1] == 1 for a in broken)
    needed = {i for a in broken for i, stride in enumerate(a.strides) if stride != 0}
    sizes = [value(code.program.space[axis], hints) for axis in needed]
    return sum(2.0 if size & (size - 1) == 0 else 6.0 for size in sizes) / (4 if wide else 1)


def _access_cost(
    code: loop.TileCode, access: Load | Store, last: int, sizes: tuple[int, int], shape: PointwiseShape
) -> float:
    """Instructions an element of a load or store: few where a thread's elements are neighbours in memory."""
    bytes_each = BYTES.get(access.dtype, 1)
    widest = max(1, 16 // bytes_each)
    if code.columns is None:
        whole = code.rows.collapsed(access.strides)
        if whole == 0:
            return 0.1
        if whole == 1:
            return 3 / widest + 0.5
        # Only a contiguous last axis keeps accesses wide.
        return 3 / min(widest, 4) + 0.5 if access.strides[-1] == 1 else 5.0
    varies = code.load_varies(access)
    per_thread = sizes[1] / min(sizes[1], max(1, 32 * shape.num_warps * widest // sizes[0]))
    if not varies[1]:
        return 6 / max(1.0, min(widest, sizes[1] / 32) * per_thread)
    vector = widest if last % widest == 0 else 1
    return (3 / vector + 0.5) / (1 if varies[0] else max(1, sizes[0] // 4))
