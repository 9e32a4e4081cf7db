"""An archive of structurally different elites: one cell for each pair of suspected bottleneck and structure.

The idea is MAP-Elites (Mouret and Clune, 2015): quality is compared inside a cell only, so that a slower kernel of
another kind stays a starting point.
"""

from collections import Counter
from collections.abc import Sequence

from ...state.trajectory import Row

Cell = tuple[str, str]
WORTH_A_LOOK = 0.5
"""Elites below this share of the best are not started from."""


def cell_of(row: Row) -> Cell:
    """Class of bottleneck and structure."""
    return row.bottleneck, row.structure


def elites(kept: Sequence[Row]) -> dict[Cell, Row]:
    """The best row of each cell; `kept` is best first."""
    cells: dict[Cell, Row] = {}
    for row in kept:
        cells.setdefault(cell_of(row), row)
    return cells


def least_tried_elite(kept: Sequence[Row], rows: Sequence[Row]) -> Row | None:
    """The elite whose cell has been started from least often; of equals the faster one."""
    if not kept:
        return None
    best = max(row.rank for row in kept)
    cells = {row.id: cell_of(row) for row in rows}
    tried = Counter(cells[row.parent] for row in rows if row.parent in cells)
    worthy = [row for row in elites(kept).values() if row.rank >= WORTH_A_LOOK * best]
    return min(worthy, key=lambda row: (tried[cell_of(row)], -row.rank))
