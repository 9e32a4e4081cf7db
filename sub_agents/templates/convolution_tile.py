"""How a convolution's places are cut into blocks: the same function in the cost model and in every kernel file."""

import functools
import inspect


# ruff: noqa: PLR0913 - it stands in kernel files, where there are no records
@functools.cache
def convolution_tile(
    height: int,
    width: int,
    tile_n: int,
    reach_0: int,
    reach_1: int,
    place_bytes: int,
    other_bytes: int,
    most_bytes: int,
) -> tuple[int, ...]:
    """Rows and columns of places that a block computes, places that it holds of each plane, and its shared memory.

    The fewest blocks, then the fewest places. A row of `columns` places takes `columns + reach_1` of the `tile_n`.
    """
    found = []
    for parts in range(1, width + 1):
        # Parts of a row begin at multiples of the widest vector that the result is stored in.
        columns = width if parts == 1 else (width + 4 * parts - 1) // (4 * parts) * 4
        if columns <= tile_n:
            pitch = columns + reach_1
            rows = min(height, (tile_n - columns) // pitch + 1)
            rows = -(-height // -(-height // rows))
            places = tile_n + reach_0 * pitch + reach_1
            shared_bytes = places * place_bytes + other_bytes
            if shared_bytes <= most_bytes:
                found.append((-(-height // rows) * -(-width // columns), places, rows, columns, shared_bytes))
        if columns <= 4:
            break
    blocks, places, rows, columns, shared_bytes = min(found)
    return rows, columns, places, shared_bytes, blocks


def source() -> str:
    """The function's text, for a kernel file."""
    return inspect.getsource(convolution_tile)
