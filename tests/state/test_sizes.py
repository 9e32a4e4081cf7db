"""Sizes that are computed, and values of symbols."""

import pytest

from warpsmith.state.lowered import Symbol, bound
from warpsmith.state.sizes import computed


@pytest.mark.parametrize(
    ("formula", "expected"),
    [("s0", 9), ("(1 + (((-1) + s0) // 2))", 5), ("s0 * s1 - 3", 60), ("-s0 % 4", 3), ("-7 // 2", -4)],
)
def test_formulas_are_integer_arithmetic(formula: str, expected: int) -> None:
    assert computed(formula, {"s0": 9, "s1": 7}) == expected


@pytest.mark.parametrize("formula", ["s0 / 2", "s0 ** 2", "abs(s0)", "1.5", "True", "s0.real", "[s0][0]", "'s0'"])
def test_anything_else_is_refused(formula: str) -> None:
    with pytest.raises(ValueError, match="no formula of sizes"):
        computed(formula, {"s0": 9})


def test_symbols_are_bound_in_order() -> None:
    symbols = (
        Symbol(name="s0", input=1, dim=2, hint=4),
        Symbol(name="s1", formula="s0 // 2", hint=2),
        Symbol(name="s2", formula="s1 + s0", hint=6),
    )
    assert bound(symbols, lambda number, dim: 10 * number + dim) == {"s0": 12, "s1": 6, "s2": 18}
