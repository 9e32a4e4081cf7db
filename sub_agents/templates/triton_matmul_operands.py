"""How Triton kernels for matrix products read their operands: by pointers with masks, or by TMA descriptors."""

from collections.abc import Sequence

from ...state.dtypes import BYTES
from ...state.program import MatmulProgram, Operand, Windows
from ...state.sizes import Size, product, value
from ..slots import Setting
from .triton_matmul_source import (
    batch_indices,
    contiguous_axis,
    multiple_of,
    plus,
    shape_source,
    terms,
    tile_terms,
    written_out,
)

MOST_TMA_AXES = 5


def descriptors_possible(program: MatmulProgram, hints: dict[str, int]) -> bool:
    """TMA wants a contiguous matrix axis, every other stride a multiple of 16 bytes, and at most five axes."""
    return len(program.batch) + 2 <= MOST_TMA_AXES and vectors_possible(program, hints)


def vectors_possible(program: MatmulProgram, hints: dict[str, int]) -> bool:
    """Whether at these sizes every row of both operands starts at a multiple of 16 bytes."""
    return all(describable(each, hints) for each in factors(program).values())


def factors(program: MatmulProgram) -> dict[str, Operand]:
    """The operands by the names that kernels give them; `c` is the second right factor."""
    named = {"a": program.a, "b": program.b, "c": program.also}
    return {side: operand for side, operand in named.items() if operand is not None}


def describable(operand: Operand, hints: dict[str, int]) -> bool:
    """Whether rows start at multiples of 16 bytes: at these sizes, or for all if there are no hints."""
    axis = contiguous_axis(operand)
    if axis is None:
        return False
    elements = 16 // BYTES[operand.dtype]
    # A stride of 0 along the batch means that the operand has no batch axis; along a matrix axis TMA cannot have it.
    matrix_stride = operand.strides[-1 if axis == -2 else -2]
    return matrix_stride != 0 and all(
        multiple_of(s, elements) or (bool(hints) and value(s, hints) % elements == 0) for s in _row_starts(operand)
    )


def _row_starts(operand: Operand) -> tuple[Size, ...]:
    """Strides other than the contiguous axis's, and the offset."""
    axis = len(operand.strides) + (contiguous_axis(operand) or -1)
    return (*(s for i, s in enumerate(operand.strides) if i != axis), operand.offset)


def alignments(program: MatmulProgram) -> list[str]:
    """Conditions on symbolic strides, as host source, without which TMA cannot read the operands."""
    found = []
    for operand in factors(program).values():
        elements = 16 // BYTES[operand.dtype]
        found += [f"{written_out(s)} % {elements} == 0" for s in _row_starts(operand) if not multiple_of(s, elements)]
    return list(dict.fromkeys(found))


def operand_side(program: MatmulProgram, side: str, pointer: str) -> dict[str, object]:
    """How one operand is addressed, masked and stepped along k."""
    operand = factors(program)[side]
    if operand.windows is not None:
        return windows_side(program, operand.windows, operand, pointer)
    outer_axis, k_axis = (-2, -1) if side == "a" else (-1, -2)
    outer_size = written_out(program.m if side == "a" else program.n)
    name, across = ("rows", "[:, None]") if side == "a" else ("columns", "[None, :]")
    along = "[None, :]" if side == "a" else "[:, None]"
    # Where the outer axis is the contiguous one, clamping would hide from the compiler that vectors are possible.
    clamped = operand.strides[outer_axis] != 1
    index = f"{side}_{name}" if clamped else name
    indices = [*batch_indices(program), f"{index}{across}", f"depth{along}"]
    strides = (*operand.strides[:-2], operand.strides[outer_axis], operand.strides[k_axis])
    outer_mask = "" if clamped else f"({name}{across} < {outer_size})"
    k_stride = written_out(operand.strides[k_axis])
    return {
        "clamped": clamped,
        "setup": [],
        "refresh": [],
        "pointers": plus(pointer, tile_terms(strides, indices, operand.offset)),
        "edge_mask": f", mask={outer_mask}, other=0.0" if outer_mask else "",
        "mask": " & ".join(filter(None, [outer_mask, f"in_k{along}"])),
        "advance": f"TILE_K * {k_stride}",
        "descriptor_load": _descriptor_load(side, operand, pointer),
    }


def windows_side(program: MatmulProgram, windows: Windows, operand: Operand, pointer: str) -> dict[str, object]:
    """How windows are read as the right factor: k is a channel and a tap of a window, a column is its place."""
    axes = windows.axes
    setup = _digits("b_place", "b_columns", [axis.places for axis in axes])
    setup += [f"b_start_{i} = b_place_{i} * {axis.stride} - {axis.padding}" for i, axis in enumerate(axes)]
    walks = [axis.walk for axis in axes]
    starts = terms(walks, [f"b_start_{i}[None, :]" for i in range(len(axes))], operand.offset)
    if not any(walks):
        starts = " + ".join(filter(None, [starts, "b_columns[None, :] * 0"]))
    setup.append(f"b_base = {plus(plus(pointer, terms(operand.strides[:-2], batch_indices(program))), starts)}")
    refresh = ["b_depth = (step * TILE_K + tl.arange(0, TILE_K)).to(INDEX)"]
    taps = [axis.taps for axis in axes]
    refresh += _digits("b_tap", "b_depth", [windows.channels, *taps])
    refresh += [f"b_at_{i} = b_tap_{i + 1} * {axis.dilation}" for i, axis in enumerate(axes)]
    steps = ["b_tap_0[:, None]", *(f"b_at_{i}[:, None]" for i in range(len(axes)))]
    moved = terms([windows.channel_walk, *walks], steps) or "b_depth[:, None] * 0"
    refresh.append(f"b_pointers = {plus('b_base', moved)}")
    inside = []
    for i, axis in enumerate(axes):
        place = f"(b_start_{i}[None, :] + b_at_{i}[:, None])"
        inside += [f"({place} >= 0)"] * (axis.padding > 0)
        inside += [f"({place} < {written_out(axis.length)})"] * (axis.behind > 0)
    mask = " & ".join(inside)
    return {
        "clamped": True,
        "setup": setup,
        "refresh": refresh,
        "pointers": "",
        "edge_mask": f", mask={mask}, other=0.0" if mask else "",
        "mask": " & ".join(filter(None, [mask, "in_k[:, None]"])),
        "advance": "",
        "descriptor_load": "",
    }


def _digits(name: str, index: str, sizes: Sequence[Size]) -> list[str]:
    """Lines that split an index into digits of these sizes, slowest first; the first takes whatever is left."""
    lines = []
    for place in range(len(sizes)):
        inner = product(sizes[place + 1 :])
        text = index if inner == 1 else f"{index} // {written_out(inner)}"
        lines.append(f"{name}_{place} = {text}" + (f" % {written_out(sizes[place])}" if place > 0 else ""))
    return lines


def _descriptor_load(side: str, operand: Operand, descriptor: str) -> str:
    outer, tile = ("tile_m * TILE_M", "TILE_M") if side == "a" else ("tile_n * TILE_N", "TILE_N")
    k_is_inner = contiguous_axis(operand) == (-1 if side == "a" else -2)
    place, shape = [outer, "step * TILE_K"], [tile, "TILE_K"]
    if not k_is_inner:
        place, shape = place[::-1], shape[::-1]
    load = f"{descriptor}.load([{', '.join(place)}])"
    if axes := _batch_axes(operand):
        outer_place = [f"batch_{axis}.to(tl.int32)" for axis in axes]
        load = f"{descriptor}.load([{', '.join([*outer_place, *place])}]).reshape({', '.join(shape)})"
    # The tile as it lies in memory is (outer, k) or (k, outer); the product wants (m, k) and (k, n).
    return load + (".T" if k_is_inner == (side != "a") else "")


def _batch_axes(operand: Operand) -> list[int]:
    """Batch axes along which the operand moves."""
    return [axis for axis, stride in enumerate(operand.strides[:-2]) if stride != 0]


def descriptor_lines(program: MatmulProgram, side: str, operand: Operand, source: str, setting: Setting) -> list[str]:
    outer_size, tile = (program.m, setting["tile_m"]) if side == "a" else (program.n, setting["tile_n"])
    outer_stride, k_stride = operand.strides[-2:] if side == "a" else operand.strides[:-3:-1]
    shape: list[Size] = [outer_size, program.k]
    strides: list[Size] = [outer_stride, k_stride]
    box: list[Size] = [int(tile), int(setting["tile_k"])]
    if k_stride != 1:
        shape, strides, box = shape[::-1], strides[::-1], box[::-1]
    for axis in reversed(_batch_axes(operand)):
        shape, strides, box = [program.batch[axis], *shape], [operand.strides[axis], *strides], [1, *box]
    base = f"{side}_base"
    lines = [f"{base} = {source}"]
    if operand.offset != 0:
        lines = [f"{base} = torch.as_strided({source}, (1,), (1,), {source}.storage_offset() + {operand.offset})"]
    lines += [
        f"if {base}.data_ptr() % 16:  # TMA reads from multiples of 16 bytes",
        f"    {base} = {source}.clone(){_shifted(operand)}",
    ]
    listed = [shape_source(each).replace("(", "[").replace(")", "]") for each in (shape, strides, box)]
    return [*lines, f"{side}_descriptor = TensorDescriptor({base}, {', '.join(listed)})"]


def _shifted(operand: Operand) -> str:
    return f".view(-1)[{operand.offset} :]" if operand.offset != 0 else ""
