"""Pointwise programs with an operand that lies transposed to the output: tiles turned round in shared memory."""

from dataclasses import dataclass
from functools import cached_property

from ...state.device import DeviceSheet
from ...state.dtypes import BYTES
from ...state.program import Load, LoopProgram, MatmulProgram
from ...state.sizes import factors, product, value
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_access import address
from .cuda_choices import maths_slots, moved_bytes, number, text
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
)
from .cuda_space import Access, Walk, space_of, walk
from .cuda_types import STORAGE, size_text

ROWS, HIGH, LOW = "rows", "high", "low"


class CudaTranspose:
    """Square tiles over the output's contiguous axis and the operand's."""

    name = "cuda_transpose"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        if not isinstance(program, LoopProgram) or program.levels > 0 or program.scans:
            return False
        axis = _high_axis(program)
        return axis is not None and min(value(program.space[a], hints) for a in (axis, -1)) >= 8

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        assert isinstance(program, LoopProgram)
        narrow = min(BYTES[load.dtype] for load in program.loads) < 4
        return (
            Slot(
                name="block_size", role="configuration", choices=(128, 256, 512), default=256, about="threads a block"
            ),
            Slot(
                name="tile",
                role="memory",
                choices=(32, 64),
                default=64 if narrow else 32,
                about="side of a square tile",
            ),
            Slot(name="load", role="memory", choices=("cached", "streaming"), default="cached"),
            Slot(name="store", role="memory", choices=("cached", "streaming"), default="cached"),
            Slot(name="unroll", role="compute", choices=(2, 4, 8, 16), default=8, about="elements in flight a thread"),
            *maths_slots(program),
        )

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        assert isinstance(program, LoopProgram)
        tile, size = number(setting, "tile"), sum(BYTES[load.dtype] for load in _transposed(program))
        room = (tile + 4) * tile * size <= 48 * 1024
        return room and number(setting, "unroll") * number(setting, "block_size") <= tile * tile

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """Bytes at copy bandwidth; the tile costs a barrier and narrow accesses."""
        assert isinstance(program, LoopProgram)
        return 1.1e3 * sum(moved_bytes(program, hints).values()) / device.copy_bytes_per_s

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        assert isinstance(program, LoopProgram)
        turned = TransposeText(_flow(program, bool(setting["fast_math"])), setting)
        context = {
            "index_type": index_type(program, setting),
            "name": identifier(program.name),
            "parameters": parameters(program, turned.flow.space, setting),
            "threads": number(setting, "block_size"),
            "tile": number(setting, "tile"),
            "unroll": number(setting, "unroll"),
            "high_size": size_text(turned.flow.space.total(HIGH)),
            "low_size": size_text(turned.flow.space.total(LOW)),
            "row_lines": turned.row_lines(),
            "transposed": turned.transposed_context(),
            "body": turned.body(),
        }
        return render_source(program, kernel_text("cuda_transpose.cu.j2", context), turned.host(), values, setting)


def _high_axis(program: LoopProgram) -> int | None:
    """The axis that a transposed operand is contiguous along; None where no tile would help."""
    if len(program.space) < 2 or not all(store.strides[-1] == 1 for store in program.stores):
        return None
    for load in program.loads:
        if load.strides[-1] not in (0, 1) and 1 in load.strides[:-1]:
            return load.strides.index(1)
    return None


def _transposed(program: LoopProgram) -> list[Load]:
    axis = _high_axis(program)
    if axis is None:
        return []
    return [load for load in program.loads if load.strides[axis] == 1 and load.strides[-1] not in (0, 1)]


def _flow(program: LoopProgram, fast_math: bool) -> Flow:
    high, last = _high_axis(program), len(program.space) - 1
    assert high is not None
    groups = {ROWS: [a for a in range(last) if a != high], HIGH: [high], LOW: [last]}
    return Flow(program, space_of(program, groups), (ROWS, HIGH, LOW), fast_math)


@dataclass(frozen=True)
class TransposeText:
    """Pieces of text. Names: `row`, `high`, `low` for the three groups' flat indices."""

    flow: Flow
    setting: Setting

    @cached_property
    def walks(self) -> list[Walk]:
        return [walk(self.flow.space, group, name) for group, name in ((ROWS, "row"), (HIGH, "high"), (LOW, "low"))]

    @cached_property
    def turned(self) -> frozenset[str]:
        return frozenset(load.name for load in _transposed(self.flow.program))

    def row_lines(self) -> list[str]:
        """Coordinates of the rows, and what every point shares."""
        lines = list(self.walks[0].lines)
        for load in self.flow.space.loads:
            if load.name not in self.flow.elements:
                raw = read(load.dtype, f"{load.pointer}[{size_text(load.offset)}]")
                lines.append(f"const auto {self.flow.printer.name(load.name)} = {raw};")
        return lines + self.flow.row_statements(0)

    def transposed_context(self) -> list[dict[str, object]]:
        return [
            {
                "name": self.flow.printer.name(load.name),
                "type": STORAGE[load.dtype],
                "padding": max(1, 4 // BYTES[load.dtype]),
                "fetch": self._at(load, "__ldcs" if text(self.setting, "load") == "streaming" else "__ldg"),
            }
            for load in self.flow.space.loads
            if load.name in self.turned
        ]

    def _at(self, load: Access, hint: str) -> str:
        place = address(load, self.walks)
        # The half types are structs, which the hinted loads do not take.
        return f"{hint}({place})" if load.dtype not in ("float16", "bfloat16") else f"*({place})"

    def body(self) -> list[str]:
        """Everything that one point computes and stores."""
        stores = self.flow.point_stores
        lines = self.flow.declarations([store.name for store in stores], self._held)
        streaming = text(self.setting, "store") == "streaming"
        for store in stores:
            place, printed = address(store, self.walks), self.flow.printer.stored(store.name, store.dtype)
            hinted = streaming and store.dtype not in ("float16", "bfloat16")
            lines.append(f"__stcs({place}, {printed});" if hinted else f"*({place}) = {printed};")
        return lines

    def _held(self, name: str) -> str | None:
        load = self.flow.loads.get(name)
        if load is not None:
            raw = (
                f"{self.flow.printer.name(name)}_tile[i % tile][i / tile]"
                if name in self.turned
                else self._at(load, "__ldg")
            )
            return read(load.dtype, raw)
        statement = self.flow.statements[name]
        if statement.op != "iota":
            return None
        group, place = self.flow.space.places[int(statement.args[0])]
        return f"(long long){next(w for w in self.walks if w.group == group).names[place]}"

    def host(self) -> Host:
        """One block a tile."""
        program, space, tile = self.flow.program, self.flow.space, number(self.setting, "tile")
        name, total = identifier(program.name), product(program.space)
        wide = wide_argument(program, self.setting).removeprefix(", ")
        blocks = f"({space.total(ROWS)}) * -(-({space.total(HIGH)}) // {tile}) * -(-({space.total(LOW)}) // {tile})"
        threads = number(self.setting, "block_size")
        return Host(
            macros=(),
            kernels=(Kernel(name),),
            skip_if_empty=f"{total} == 0" if factors(total)[1] or total == 0 else "",
            body=(
                f"kernel = compile_{name}({wide})",
                f"arguments = {launch_arguments(program, self.setting)}",
                f"blocks = {blocks}",
                f"kernel((blocks,), ({threads},), arguments, stream={stream_text(program)})",
            ),
            summary="Square tiles, turned round in shared memory.",
        )
