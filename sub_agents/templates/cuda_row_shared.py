"""Reductions over rows that fit the shared memory of a block, or of a cluster of blocks: one read, one write."""

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import Size
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_access import LOADS, STORES
from .cuda_choices import (
    choice_of_width,
    default_unroll,
    maths_slots,
    number,
    passes_slot,
    tile_registers,
    vector_choices,
)
from .cuda_names import identifier
from .cuda_passes import Pass
from .cuda_render import (
    Host,
    Kernel,
    Values,
    kernel_text,
    launch_arguments,
    parameters,
    render_source,
    stream_text,
    wide_argument,
)
from .cuda_row import COLUMNS, ROWS, RowText, columns_contiguous, empty_rows, extents, held_bytes, row_flow, streamed
from .cuda_row_tiles import Fetch, Hold, global_fetch, loads_of, tile_pass
from .cuda_space import Access
from .cuda_types import STORAGE

HELD_KIB = (48, 72, 104, 144, 216)
"""Shared memory that a block may hold of its row: four, three, two and one block a processor of 228 KiB."""
PORTABLE_CLUSTER = 8
NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
"""The driver's CU_FUNC_ATTRIBUTE of that name."""


class CudaRowShared:
    """One block a row. What does not fit is read again in each pass."""

    name = "cuda_row_shared"
    _clusters: tuple[int, ...] = (1,)

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        if not isinstance(program, LoopProgram) or program.levels == 0 or not columns_contiguous(program):
            return False
        row = RowText(row_flow(program, False, merging=True), {})
        columns = extents(program, hints)[1]
        room = self._clusters[-1] * HELD_KIB[-1] * 1024
        # Rows far beyond the room would be read again in every pass.
        return bool(_held(row)) and columns >= 512 * self._clusters[0] and columns * held_bytes(program) <= 1.4 * room

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        width = choice_of_width(program)
        columns, held = extents(program, hints)[1], max(1, held_bytes(program))
        # Two blocks a processor: one loads while the other stores.
        cluster = next((c for c in self._clusters if columns * held <= c * 104 * 1024), self._clusters[-1])
        needed = -(-columns * held // (cluster * 1024))
        kib = next((k for k in HELD_KIB if needed <= k), HELD_KIB[-1])
        # Three blocks a processor hide more with 8 warps each than with 16.
        most = 8 if kib <= 72 else 16 if kib <= 104 else 32
        warps = next((w for w in (4, 8) if columns <= cluster * w * 32 * width * 4), most)
        slots = [
            Slot(name="num_warps", role="configuration", choices=(4, 8, 16, 32), default=warps, about="a block"),
            Slot(name="vector", role="memory", choices=vector_choices(program), default=width, about="elements a load"),
            Slot(name="load", role="memory", choices=tuple(LOADS), default="cached"),
            Slot(name="store", role="memory", choices=tuple(STORES), default="cached"),
            Slot(
                name="held_kib", role="memory", choices=HELD_KIB, default=kib, about="shared memory for a block's part"
            ),
            Slot(
                name="unroll",
                role="compute",
                choices=(1, 2, 4, 8),
                default=default_unroll(program, width, 24 if warps == 32 else 48),
                about="vectors in flight a thread",
            ),
            *maths_slots(program),
            *passes_slot(program),
        ]
        if len(self._clusters) > 1:
            slots.append(
                Slot(name="cluster", role="reduction", choices=self._clusters, default=cluster, about="blocks a row")
            )
        return tuple(slots)

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        room = device.shared_bytes_per_block - 8 * 1024
        most = 24 if number(setting, "num_warps") == 32 else 48
        return tile_registers(program, setting) <= most and number(setting, "held_kib") * 1024 <= room

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """One read of what is held, one a pass of the rest; barriers cost what a second block does not hide."""
        assert isinstance(program, LoopProgram)
        rows, columns = extents(program, hints)
        flow = row_flow(program, False, setting.get("passes") == "online")
        cluster = int(setting.get("cluster", 1))
        row_bytes = max(1, columns * held_bytes(program))
        share = min(1.0, cluster * number(setting, "held_kib") * 1024 / row_bytes)
        reads = share + (1 - share) * len(flow.passes)
        stored = sum(BYTES[store.dtype] for store in flow.point_stores)
        moved = rows * (row_bytes * reads + columns * stored)
        alone = (1.14 if number(setting, "held_kib") > 104 else 1.08) * (1.03 if cluster > 1 else 1.0)
        busy = min(1.0, rows * cluster / device.sm_count)
        return 1e3 * moved * alone / (device.copy_bytes_per_s * max(busy, 1e-3))

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        assert isinstance(program, LoopProgram)
        row = RowText(row_flow(program, bool(setting["fast_math"]), setting["passes"] == "online"), setting)
        cluster, threads = int(setting.get("cluster", 1)), 32 * number(setting, "num_warps")
        held = _held(row)
        passes = [tile_pass(row, each, _fetch(row, held), _hold(row, held)) for each in row.flow.passes]
        last = max(each.number for each in row.flow.passes if each.reductions)
        for each in passes:
            each["last_reduction"] = each["number"] == last
        context = {
            **row.context(),
            "parameters": parameters(program, row.flow.space, setting, ["int capacity"]),
            "threads": threads,
            "unroll": number(setting, "unroll"),
            "cluster": cluster,
            "held_arrays": _arrays(row, held),
            "passes": passes,
        }
        cuda = kernel_text("cuda_row_shared.cu.j2", context)
        return render_source(program, cuda, _host(row, held, threads, cluster), values, setting)


class CudaRowCluster(CudaRowShared):
    """A row over the blocks of a thread-block cluster. Size 16 is asked of the driver; up to 8 need no asking."""

    name = "cuda_row_cluster"
    _clusters = (2, 4, 8, 16)

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        digits = "".join(c for c in device.arch if c.isdigit())
        return int(digits or 0) >= 90 and super().legal(program, setting, hints, device)


def _held(row: RowText) -> dict[str, int]:
    """Loads that several passes read, with the number of the first of them."""
    found: dict[str, int] = {}
    used = {each.number: loads_of(row, each) for each in row.flow.passes}
    for load in row.flow.space.loads:
        numbers = [number for number, names in used.items() if load.name in names]
        if len(numbers) > 1 and streamed(load):
            found[load.name] = numbers[0]
    return found


def _element_bytes(row: RowText, held: dict[str, int]) -> int:
    return sum(BYTES[row.flow.loads[name].dtype] for name in held)


def _arrays(row: RowText, held: dict[str, int]) -> list[str]:
    """Where each held load's slice lies in dynamic shared memory."""
    lines, before = [], 0
    for name in held:
        dtype = row.flow.loads[name].dtype
        place = f"shared + {before} * capacity" if before else "shared"
        kind = STORAGE[dtype]
        lines.append(f"{kind}* {row.flow.printer.name(name)}_held = reinterpret_cast<{kind}*>({place});")
        before += BYTES[dtype]
    return lines


def _hold(row: RowText, held: dict[str, int]) -> Hold:
    def hold(load: Access, each: Pass) -> list[str]:
        if held.get(load.name) != each.number:
            return []
        name = row.flow.printer.name(load.name)
        return [f"if (fits || col - begin < capacity) store_cached<vector>({name}_held + (col - begin), {name}_at[u]);"]

    return hold


def _fetch(row: RowText, held: dict[str, int]) -> Fetch:
    from_memory = global_fetch(row)

    def fetch(load: Access, each: Pass) -> str:
        if load.name not in held or held[load.name] == each.number:
            return row.fetch(load)
        name = row.flow.printer.name(load.name)
        again = from_memory(load, each)
        return f"fits || col - begin < capacity ? load_held<vector>({name}_held + (col - begin)) : {again}"

    return fetch


def _host(row: RowText, held: dict[str, int], threads: int, cluster: int) -> Host:
    program, space = row.program, row.flow.space
    name, columns = identifier(program.name), space.total(COLUMNS)
    size, total = _element_bytes(row, held), space.total(ROWS)
    limit = number(row.setting, "held_kib") * 1024 // max(1, size) // 64 * 64
    # Beyond 48 KiB in all the driver must be asked; the static partial results count too.
    reach = " + shifted * (vec - 1)" if row.leads else ""
    setup = [f"kernel.max_dynamic_shared_size_bytes = {limit * size}"] if limit * size > 40 * 1024 else []
    if cluster > PORTABLE_CLUSTER:
        setup.append(f"cupy.cuda.driver.funcSetAttribute(kernel.kernel.ptr, {NON_PORTABLE_CLUSTER_SIZE_ALLOWED}, 1)")
    chosen = f"{', '.join(row.macros)}, int(capacity >= slice_columns){wide_argument(program, row.setting)}"
    return Host(
        macros=(*row.macros, "fits"),
        kernels=(Kernel(name, tuple(setup)),),
        skip_if_empty=empty_rows(space),
        body=(
            *row.width_lines(),
            f"slice_columns = -(-({columns}{reach}) // ({cluster} * vec)) * vec",
            f"capacity = min({limit}, -(-slice_columns // 16) * 16)",
            f"kernel = compile_{name}({chosen})",
            f"arguments = {launch_arguments(program, row.setting, ['cupy.int32(capacity)'])}",
            f"blocks = {_times(total, cluster)}",
            f"stream = {stream_text(program)}",
            f"kernel((blocks,), ({threads},), arguments, shared_mem=capacity * {size}, stream=stream)",
        ),
        summary="One read and one write of each row, which lies in shared memory between the passes.",
    )


def _times(total: Size, cluster: int) -> str:
    return f"{total}" if cluster == 1 else f"{cluster} * ({total})"
