"""What kernels cost a multiprocessor: instructions of each operator, and how many bytes in flight fill the memory.

Calibrated on an H200.
"""

from math import exp

from ...state.program import Statement
from .triton_loop import TileCode

LAUNCH_MS = 0.003
"""GPU time between dependent kernels of one stream."""
ISSUE_RATE = 128 * 1.85e9 * 0.8
"""Instructions a second that the lanes of one multiprocessor complete in practice."""
HALF_FLIGHT_BYTES = 20_000
"""Scale of the bytes in flight on a multiprocessor: 16 kB reach half of the bandwidth, 60 kB all of it."""
ACCURATE = {
    **dict.fromkeys(("exp", "exp2", "expm1"), 8),
    **dict.fromkeys(("log", "log2", "log1p"), 14),
    **{"tanh": 20, "erf": 20, "sigmoid": 17, "div": 22, "reciprocal": 18, "sqrt": 8, "rsqrt": 4},
    **dict.fromkeys(("sin", "cos", "pow", "fmod", "remainder", "floor_div"), 28),
}
"""Instructions an element; one where an operator is not listed."""
APPROXIMATE = {"exp": 2, "tanh": 7, "sigmoid": 6, "div": 2, "reciprocal": 2, "sqrt": 3}
"""The same with `exact_math` off, where it differs."""


def statement_cost(code: TileCode, statement: Statement, exact: bool) -> float:
    """Instructions of one lane."""
    if statement.op == "div" and (code.divides_by_fewer(statement) or not isinstance(statement.args[1], str)):
        return 1
    accurate = ACCURATE.get(statement.op, 1)
    return accurate if exact else APPROXIMATE.get(statement.op, accurate)


def reached(flight_bytes: float) -> float:
    """The share of the bandwidth that a multiprocessor reaches with so many bytes in flight, in (0, 1)."""
    return 1 - exp(-flight_bytes / HALF_FLIGHT_BYTES)
