"""Which attention fits one kernel: planner and templates have to agree."""

from collections.abc import Mapping

from ..state.program import MatmulProgram
from ..state.sizes import value

MOST_DEPTH = 256
"""Largest row of a query: it lies in one tile."""
MOST_WIDTH = {"float32": 128, "float16": 256, "bfloat16": 256}
"""Largest row of a value, by type: the sums of a tile lie in registers, beside the parts of fp32 that is split."""


def fits_tiles(program: MatmulProgram, hints: Mapping[str, int]) -> bool:
    """Whether a product whose left factor is a softmax has rows that fit, factors of one type, and no double scores."""
    if program.scores is None:
        return False
    dtypes = {operand.dtype for operand in (*program.operands, program.a)}
    width = MOST_WIDTH.get(program.b.dtype, 0)
    plain = all(operand.windows is None for operand in program.operands)
    return (
        plain and len(dtypes) == 1 and value(program.scores.k, hints) <= MOST_DEPTH and value(program.n, hints) <= width
    )
