"""Fused pointwise chains: vectors of up to 16 bytes, several in flight a thread, one flat grid."""

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import LoopProgram, MatmulProgram
from ...state.sizes import product, value
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_access import LOADS, STORES, address, fetch_text, output_lines, put_text, vector_of
from .cuda_choices import maths_slots, moved_bytes, narrowest_bytes, number, text, vector_choices
from .cuda_expression import read
from .cuda_names import identifier
from .cuda_passes import Flow
from .cuda_render import (
    Host,
    Kernel,
    Values,
    index_type,
    kernel_text,
    launch_arguments,
    parameters,
    render_source,
    stream_text,
    wide_argument,
    width_lines,
)
from .cuda_space import Access, Space, space_of, walk
from .cuda_types import size_text

GROUP = "points"


class CudaPointwise:
    """One thread a few vectors of neighbouring points; operands of any strides, broadcast or transposed."""

    name = "cuda_pointwise"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        return isinstance(program, LoopProgram) and program.levels == 0 and not program.scans

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        points = 1
        for size in program.space:
            points *= value(size, hints)
        widths = vector_choices(program)
        width = next((w for w in reversed(widths) if w * narrowest_bytes(program) <= 16), 1)
        small = points < device.sm_count * 2048 * width
        resident = device.sm_count * 8
        return (
            Slot(
                name="block_size", role="configuration", choices=(128, 256, 512), default=256, about="threads a block"
            ),
            Slot(
                name="grid_limit",
                role="configuration",
                choices=(0, resident // 2, resident, 4 * resident),
                default=0,
                about="most blocks, each then looping over tiles; 0: one block a tile",
            ),
            Slot(name="vector", role="memory", choices=widths, default=width, about="elements a load"),
            Slot(
                name="load",
                role="memory",
                choices=tuple(LOADS),
                default="cached",
                about="cache hint of streamed loads",
            ),
            Slot(name="store", role="memory", choices=tuple(STORES), default="cached"),
            Slot(
                name="unroll",
                role="compute",
                choices=(1, 2, 4, 8),
                default=1 if small else 2,
                about="vectors in flight",
            ),
            *maths_slots(program),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        """Keeps the vectors that a thread holds within about 96 registers."""
        assert isinstance(program, LoopProgram)
        held = sum(BYTES[load.dtype] for load in program.loads) * number(setting, "vector") * number(setting, "unroll")
        return held <= 96 * 4

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """Bytes at copy bandwidth. An operand across the grain moves whole sectors for single elements."""
        assert isinstance(program, LoopProgram)
        moved = moved_bytes(program, hints)
        across = {load.name for load in program.loads if load.strides and load.strides[-1] not in (0, 1)}
        total = sum(size * (4 if name in across else 1) for name, size in moved.items())
        narrow = 1.0 if number(setting, "vector") * narrowest_bytes(program) >= 16 else 1.05
        return 1e3 * total * narrow / device.copy_bytes_per_s

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        assert isinstance(program, LoopProgram)
        space = space_of(program, {GROUP: range(len(program.space))})
        flow = Flow(program, space, (GROUP,), bool(setting["fast_math"]))
        threads, unroll = number(setting, "block_size"), number(setting, "unroll")
        points = walk(space, GROUP, "point")
        ends = "partly" if len(points.sizes) == 1 else "crossing" if _crossable(flow, setting) else "whole"
        stores = flow.point_stores
        targets = [store.name for store in stores]
        needed = flow.needed(targets)
        outputs, filling = output_lines(stores, flow.printer)
        context = {
            "index_type": index_type(program, setting),
            "name": identifier(program.name),
            "parameters": parameters(program, space, setting),
            "threads": threads,
            "unroll": unroll,
            "grid_limit": number(setting, "grid_limit"),
            "points": size_text(space.total(GROUP)),
            "uniform": _uniform(flow),
            "single": [f"{s.pointer}[0] = {flow.printer.stored(s.name, s.dtype)};" for s in flow.row_stores],
            "coordinates": points.lines,
            "ends": ends,
            "loads": [_load(flow, load, setting, ends) for load in space.loads if load.name in needed],
            "near_lines": walk(space, GROUP, "near").lines,
            "places": any(flow.statements[n].op == "iota" for n in needed if n in flow.statements),
            "outputs": outputs,
            "body": flow.declarations(targets, lambda name: _held(flow, name, ends)) + filling,
            "stores": [
                line
                for store in stores
                for line in put_text(
                    store,
                    GROUP,
                    address(store, [points]),
                    f"{identifier(store.value)}_out",
                    STORES[text(setting, "store")],
                    ends != "whole",
                )
            ],
        }
        cuda = kernel_text("cuda_pointwise.cu.j2", context)
        return render_source(program, cuda, _host(program, flow, setting, ends), values, setting)


def _uniform(flow: Flow) -> list[str]:
    """What every point shares, loaded once a thread."""
    lines = []
    for load in flow.space.loads:
        if load.name not in flow.elements:
            raw = read(load.dtype, f"{load.pointer}[{size_text(load.offset)}]")
            lines.append(f"const auto {flow.printer.name(load.name)} = {raw};")
    for statement in flow.program.body:
        if statement.op == "iota" and statement.name not in flow.elements:
            lines.append(f"const long long {flow.printer.name(statement.name)} = 0;")
    return lines + flow.row_statements(0)


def _flat(space: Space, access: Access) -> bool:
    """Whether the flat index is its offset: neighbours in the space are neighbours in memory, across all axes."""
    sizes, strides = space.sizes[GROUP], access.strides[GROUP]
    return all(stride == product(sizes[i + 1 :]) for i, stride in enumerate(strides))


def _crossable(flow: Flow, setting: Setting) -> bool:
    """Whether vectors may run over the end of the last axis, as odd sizes ask for: every output is flat."""
    return number(setting, "vector") > 1 and all(_flat(flow.space, store) for store in flow.point_stores)


def _load(flow: Flow, load: Access, setting: Setting, ends: str) -> dict[str, str]:
    """One operand. `gather` is the address of the point `near`, for vectors that cross axes; empty if it is flat."""
    flat = _flat(flow.space, load)
    points, near = (walk(flow.space, GROUP, name) for name in ("point", "near"))
    partly = ends == "partly" or (ends == "crossing" and flat)
    return {
        "name": flow.printer.name(load.name),
        "vector": vector_of(load),
        "fetch": fetch_text(load, GROUP, address(load, [points]), _policy(load, setting), partly),
        "gather": "" if flat or ends != "crossing" else address(load, [near]),
    }


def _held(flow: Flow, name: str, ends: str) -> str | None:
    if name in flow.loads:
        return read(flow.loads[name].dtype, f"{flow.printer.name(name)}_at[u].at[j]")
    statement = flow.statements[name]
    if statement.op == "iota":
        place = flow.space.places[int(statement.args[0])][1]
        coordinates = walk(flow.space, GROUP, "near" if ends == "crossing" else "point").names
        last = place == len(coordinates) - 1 and ends != "crossing"
        return f"(long long)({coordinates[place]}{' + j' if last else ''})"
    return None


def _policy(load: Access, setting: Setting) -> str:
    """Broadcast operands are read again and again: they stay in the caches."""
    broadcast = any(stride == 0 for stride in load.strides[GROUP])
    return LOADS["cached" if broadcast else text(setting, "load")]


def _crossing_lines(flow: Flow, setting: Setting) -> list[str]:
    """Python that widens `vec` to what the flat operands alone allow, where that is worth the others' gathering."""
    flat = [a for a in flow.space.accesses if _flat(flow.space, a)]
    terms = [f"{identifier(a.value)}.data_ptr() // {BYTES[a.dtype]}" for a in flat]
    terms += [str(a.offset) for a in flat if a.offset != 0]
    others = [a for a in flow.space.loads if a not in flat and 0 not in a.strides[GROUP]]
    # Operands that are neither flat nor broadcast are as large as the output: their own vectors are worth keeping.
    most = "vec == 1 and " if others else ""
    return [
        f"flat = {' | '.join(f'({t})' if ' ' in t else t for t in dict.fromkeys(terms))}",
        f"across = min({number(setting, 'vector')}, flat & -flat)",
        f"crossing = int({most}across > vec)",
        "vec = across if crossing else vec",
    ]


def _host(program: LoopProgram, flow: Flow, setting: Setting, ends: str) -> Host:
    space, tile = flow.space, number(setting, "block_size") * number(setting, "unroll")
    others = [] if ends == "partly" or not space.sizes[GROUP] else [str(space.sizes[GROUP][-1])]
    crossing = ends == "crossing"
    limit = number(setting, "grid_limit")
    blocks = f"-(-points // ({tile} * vec))"
    chosen = ("vec, crossing" if crossing else "vec") + wide_argument(program, setting)
    return Host(
        macros=("vec", "crossing") if crossing else ("vec",),
        kernels=(Kernel(identifier(program.name)),),
        skip_if_empty="" if space.total(GROUP) == 1 else f"{space.total(GROUP)} == 0",
        body=(
            *width_lines(space.accesses, GROUP, number(setting, "vector"), others),
            *(_crossing_lines(flow, setting) if crossing else ()),
            f"points = {space.total(GROUP)}",
            f"blocks = min({limit}, {blocks})" if limit else f"blocks = {blocks}",
            f"kernel = compile_{identifier(program.name)}({chosen})",
            f"arguments = {launch_arguments(program, setting)}",
            f"kernel((blocks,), ({number(setting, 'block_size')},), arguments, stream={stream_text(program)})",
        ),
        summary="Pointwise: one read of each operand and one write of each output.",
    )
