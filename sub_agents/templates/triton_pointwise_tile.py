"""How a pointwise program is laid out in tiles: flat, or with a contiguous side for every operand."""

from ...state.dtypes import BYTES
from ...state.program import LoopProgram
from ...state.sizes import product, value
from . import triton_loop as loop
from .triton_expression import HALVES, Printer


def numel_of(program: LoopProgram, hints: dict[str, int]) -> int:
    return value(product(program.space), hints)


def is_transposed(program: LoopProgram) -> bool:
    """Whether some operand is contiguous along another axis than the output's last one."""
    last = len(program.space) - 1
    return any(load.strides[last] not in (0, 1) and 1 in load.strides for load in loop.accesses(program))


def _row_order(program: LoopProgram) -> tuple[int, ...]:
    """All axes but the last, the one that a transposed operand is contiguous along fastest."""
    axes = list(range(len(program.space) - 1))
    for load in program.loads:
        fast = [a for a in axes if load.strides[a] == 1]
        if load.strides[-1] != 1 and fast:
            return (*[a for a in axes if a != fast[0]], fast[0])
    return tuple(axes)


def trailing_axes(program: LoopProgram) -> tuple[int, ...]:
    """The longest run of last axes that every access steps through evenly."""
    last = len(program.space)
    for start in range(last):
        side = loop.group(program, "column", range(start, last))
        if all(side.collapsed(access.strides) is not None for access in loop.accesses(program)):
            # All of the space would leave no rows.
            return side.axes if start > 0 else side.axes[1:]
    return (last - 1,)


def is_rounded(program: LoopProgram) -> bool:
    """Whether every floating result is rounded to a half type, which hides approximations in float32."""
    floats = [s.dtype for s in program.stores if s.dtype.startswith(("float", "bfloat"))]
    return all(dtype in HALVES for dtype in floats)


def element_bytes(program: LoopProgram) -> int:
    """The widest streamed element."""
    return max(BYTES.get(access.dtype, 1) for access in loop.accesses(program))


def tile_of(program: LoopProgram, printer: Printer, two_sided: bool, sizes: tuple[int, int]) -> loop.TileCode:
    """The program on a flat tile, or on one of rows and columns of the given sizes."""
    if not two_sided:
        rows = loop.group(program, "row", range(len(program.space)))
        mask = not isinstance(rows.extent, int) or rows.extent % sizes[0] != 0
        return loop.TileCode(program, rows, None, printer, row_mask=mask)
    if not is_transposed(program):
        columns = loop.group(program, "column", trailing_axes(program))
        rows = loop.group(program, "row", range(len(program.space) - len(columns.axes)))
        masks = [
            not isinstance(side.extent, int) or side.extent % size != 0
            for side, size in zip((rows, columns), sizes, strict=True)
        ]
        return loop.TileCode(program, rows, columns, printer, row_mask=masks[0], column_mask=masks[1])
    order = _row_order(program)
    columns = loop.group(program, "column", (len(program.space) - 1,))
    # One run of the transposed operand's contiguous axis: a flattened index would hide that it is contiguous.
    rows, outer = loop.group(program, "row", order[-1:]), loop.group(program, "outer", order[:-1])
    return loop.TileCode(program, rows, columns, printer, outer=outer if outer.axes else None)
