"""How long a kernel should take: ranks templates and settings by traffic, instructions, bytes in flight and launches.

Calibrated on an H200. It need not be right in milliseconds; a setting that it puts far above another one is slower.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from ...state.candidate import SlotValue
from ...state.device import DeviceSheet
from ...state.program import REDUCTIONS, Load, LoopProgram, Statement
from ...state.sizes import product, value
from .triton_expression import HALVES
from .triton_instructions import ISSUE_RATE, LAUNCH_MS, reached, statement_cost
from .triton_loop import TileCode, accesses, constant_in_runs, definitions, reduced_axes
from .triton_passes import Pass, passes, row_printer, split_stores
from .triton_reduction import Deviations, OnlineExp
from .triton_row import RowShape, row_shape, tile_code, whole_tiles

SOLO_GAIN = 1.5
"""How much more than its share of the bandwidth one multiprocessor can draw when others idle."""
STEP_US, AHEAD_US = 1.0, 0.5
"""A step of a loop that asks for its data when it needs it, and one whose data was asked for earlier."""
PASS_LOSS = 1.15
"""A pass has to wait for all of the one before it."""
SECTOR_LOSS_BYTES = 64
"""What a run of bytes that starts anywhere costs beyond itself."""


@dataclass(frozen=True)
class Trips:
    """What a kernel does with the data, and what a multiprocessor holds of it at once."""

    reads: float
    """How often the data is read, the store pass included."""
    programs: int
    num_warps: int
    instructions: float
    """Of one lane for each element of the space, all passes counted."""
    flight_bytes: float
    """Loads that one program has outstanding."""
    registers: float = 40
    """A thread."""
    waste: float = 1.0
    """Bytes moved for each byte used."""
    launches: int = 1
    latency_us: float = 0.0
    """What one program waits for at least, however idle the machine is: loads, folds, steps of loops."""

    @property
    def resident(self) -> int:
        """Programs that one multiprocessor can hold."""
        threads = 32 * self.num_warps
        return max(1, min(32, 2048 // threads, int(65536 // (max(32, self.registers) * threads))))

    @property
    def spills(self) -> bool:
        return self.registers > min(255, 65536 // (32 * self.num_warps))


def load_cost(load: Load, vector: int) -> float:
    return 2 / vector + (1 if load.dtype in HALVES or load.dtype in ("bool", "int8", "uint8") else 0)


def element_cost(code: TileCode, parts: Iterable[Load | Statement], exact: bool, vector: int) -> float:
    """Instructions of one lane for what varies along the tile's columns."""
    cost = 0.0
    for part in parts:
        if not code.varies[part.name][1]:
            continue
        if isinstance(part, Load):
            cost += load_cost(part, vector if all(code.varies[part.name]) else 1)
        elif part.op not in REDUCTIONS:
            cost += statement_cost(code, part, exact)
    return cost


def pass_cost(code: TileCode, each: Pass, exact: bool, vector: int) -> float:
    """Instructions of one lane for each element of a reducing pass that reads its own data."""
    cost = element_cost(code, code.closure(each.sources, frozenset()), exact, vector)
    for accumulator in each.accumulators:
        if isinstance(accumulator, OnlineExp):
            cost += 7 + (8 if exact else 2)
        elif isinstance(accumulator, Deviations):
            cost += 5
        else:
            cost += 1 + 4 * (len(accumulator.states) - 1)
    return cost


def store_cost(code: TileCode, exact: bool, vector: int, runs: bool = False) -> float:
    """Instructions of one lane for each element of a pass that reads and stores whole tiles; 0 if nothing is.

    In tiles that keep to runs, what is constant along a run costs nothing.
    """
    _, stores = split_stores(code)
    if not stores:
        return 0.0
    once = constant_in_runs(code.program) if runs else ()
    parts = [part for part in code.closure([store.name for store in stores], frozenset()) if part not in once]
    return element_cost(code, parts, exact, vector) + len(stores) * (2 / vector + 0.5)


def index_cost(code: TileCode) -> float:
    """Divisions that split a flat column index, for accesses that do not step through it evenly."""
    columns = code.columns
    if columns is None or len(columns.axes) < 2:
        return 0.0
    return 10.0 if any(gathered(code, load) for load in code.program.loads) else 0.0


def gathered(code: TileCode, load: Load) -> bool:
    """Whether a load does not step evenly through the columns."""
    return code.columns is not None and code.columns.collapsed(load.strides) is None


def vector_width(program: LoopProgram, shape: RowShape, hints: dict[str, int]) -> int:
    """Elements that one access can move along memory's contiguous axis: 16 bytes where every run is aligned."""
    most = max(1, 16 // shape.element_bytes)
    steps = {
        abs(value(stride, hints))
        for access in accesses(program)
        for stride, size in zip(access.strides, program.space, strict=True)
        if stride not in (0, 1) and size != 1
    }
    while most > 1 and any(step % most for step in steps):
        most //= 2
    return most


def has_tile_stores(program: LoopProgram) -> bool:
    """Whether the kernel writes whole tiles, not only one value a row."""
    return bool(split_stores(tile_code(program, row_printer(True), (True, True)))[1])


@dataclass(frozen=True)
class Work:
    """What does not depend on the setting: bytes of one trip and instructions of one lane for each element."""

    read_bytes: int
    written_bytes: int
    vector: int
    held: float
    """With every tile kept in registers: loads and statements once, reductions, stores."""
    passes: tuple[float, ...]
    """Of the reducing passes, and last of the pass that stores tiles (0 where there is none)."""
    states: int
    """Values that a lane carries in the busiest pass."""
    reductions: int


def work(program: LoopProgram, hints: dict[str, int], exact: bool, online: bool, runs: bool = False) -> Work:
    """Traffic and instructions of a reduction; with `runs` the last pass keeps to runs of the innermost axis."""
    return _work(program, tuple(sorted(hints.items())), exact, online, runs)


@lru_cache(maxsize=512)
def _work(program: LoopProgram, known: tuple[tuple[str, int], ...], exact: bool, online: bool, runs: bool) -> Work:
    hints = dict(known)
    code, shape = tile_code(program, row_printer(True), (True, True)), row_shape(program, hints)
    space = value(product(program.space), hints)
    _, stores = split_stores(code)
    vector, made = vector_width(program, shape, hints), passes(code, online)
    index = index_cost(code)
    every = element_cost(code, definitions(program), exact, vector)
    broken = {load.name for load in program.loads if gathered(code, load)}
    each_pass = [
        pass_cost(code, each, exact, vector)
        + index * any(p.name in broken for p in code.closure(each.sources, frozenset()))
        for each in made
    ]
    return Work(
        read_bytes=shape.heavy * space * shape.element_bytes,
        written_bytes=len(stores) * space * shape.element_bytes,
        vector=vector,
        held=index + every + 2 * program.levels + len(stores) * (2 / vector + 0.5),
        passes=(*each_pass, store_cost(code, exact, vector, runs) + (index if stores and not runs else 0.0)),
        states=max((len(each.looped_states) for each in made), default=0),
        reductions=sum(s.op in REDUCTIONS for s in program.body),
    )


def cached_rereads(shape: RowShape, trips: Trips, device: DeviceSheet, read_bytes: int) -> float:
    """The share of a row's second reading that comes from L2."""
    row_bytes = read_bytes / max(1, shape.outer)
    active = row_bytes * min(shape.outer, device.sm_count * trips.resident * shape.outer / max(1, trips.programs))
    return min(1.0, 0.5 * device.l2_bytes / max(1.0, active))


def strided_waste(program: LoopProgram, setting: Mapping[str, SlotValue], hints: dict[str, int]) -> float:
    """Bytes moved for each byte used by a strided tile, whose contiguous side is as long as it has rows."""
    shape = row_shape(program, hints)
    if not shape.strided:
        return 1.0
    run = min(int(setting["rows_per_program"]), shape.inner_contiguous) * shape.element_bytes
    aligned = vector_width(program, shape, hints) > 1
    # Rows counted over all outer axes hide from the compiler that memory is contiguous along them.
    hidden = 2.0 if setting.get("tile", "inner") == "flat" else 1.0
    return hidden * (1 + (16 if aligned and run % 32 == 0 else SECTOR_LOSS_BYTES) / max(1, run))


def run_padding(program: LoopProgram, hints: dict[str, int], block: int) -> float:
    """Elements of whole tiles for each element of a run of the innermost reduced axis."""
    length = max(1, value(program.space[reduced_axes(program)[-1]], hints))
    return -(-length // block) * block / length


def looped_trips(
    program: LoopProgram, setting: Mapping[str, SlotValue], hints: dict[str, int], programs: int, launches: int = 1
) -> Trips:
    """Of a template that goes over rows in chunks of `block_size`."""
    shape, merged = row_shape(program, hints), setting.get("passes", "online") == "online"
    runs = setting.get("apply", "flat") == "runs"
    facts = work(program, hints, bool(setting["exact_math"]), merged, runs)
    rows, block, warps = int(setting.get("rows_per_program", 1)), int(setting["block_size"]), int(setting["num_warps"])
    per_thread = rows * block / (32 * warps)
    # Unaligned loads of less than four bytes cannot be copied ahead.
    ahead = int(setting.get("stages", 1)) if facts.vector * shape.element_bytes >= 4 else 1
    chunk = max(1, min(block, shape.extent))
    share = -(-shape.extent // int(setting.get("split", 1)))
    padding = -(-shape.extent // block) * block / max(1, shape.extent)
    # A loop step waits for its loads, then works: the two overlap only between programs.
    overhead = 12 * 32 * warps / (rows * chunk)
    return Trips(
        reads=sum(cost > 0 for cost in facts.passes),
        programs=programs,
        num_warps=warps,
        instructions=padding * sum(cost + overhead for cost in facts.passes if cost > 0)
        + (run_padding(program, hints, block) - padding) * runs * facts.passes[-1],
        flight_bytes=rows * chunk * shape.element_bytes * shape.heavy * ahead,
        registers=24
        + per_thread * (facts.states + whole_tiles(program, setting, shape)) * max(1, shape.element_bytes // 4),
        waste=strided_waste(program, setting, hints),
        launches=launches,
        latency_us=(STEP_US if ahead == 1 else AHEAD_US) * sum(cost > 0 for cost in facts.passes) * -(-share // block),
    )


def estimated_ms(program: LoopProgram, trips: Trips, hints: dict[str, int], device: DeviceSheet) -> float:
    """The longer of moving the data and executing the instructions, and part of the shorter."""
    shape = row_shape(program, hints)
    facts = work(program, hints, exact=True, online=True)
    read, written = facts.read_bytes, facts.written_bytes
    repeated = (trips.reads - 1) * (1 - 0.7 * cached_rereads(shape, trips, device, read))
    moved = (read * (1 + repeated) + written) * trips.waste
    # Nothing to do takes a program's time.
    programs = max(1, trips.programs)
    spread = min(1.0, SOLO_GAIN * programs / device.sm_count)
    held = min(trips.resident, max(1.0, programs / device.sm_count))
    memory = 1e3 * moved / device.copy_bytes_per_s / max(1e-3, spread * reached(held * trips.flight_bytes))
    busy = min(1.0, programs / device.sm_count) * min(1.0, held * trips.num_warps / 8)
    space = value(product(program.space), hints)
    issue = 1e3 * space * trips.instructions / (device.sm_count * ISSUE_RATE * busy)
    waves = programs / (device.sm_count * trips.resident)
    waiting = 1e-3 * max(1.0, waves) * trips.latency_us
    # The last programs have the machine to themselves.
    tail = 1 + 0.25 * (max(1.0, ceil(waves)) / waves - 1) if waves > 1 else 1.0
    total = max(tail * (max(memory, issue) + 0.15 * min(memory, issue)), waiting)
    if trips.reads > 1:
        total *= PASS_LOSS
    return total * (3.0 if trips.spills else 1.0) + LAUNCH_MS * trips.launches
