"""Autotuned kernels are frozen: one candidate a configuration, none that times anything itself."""

import ast

import pytest

from warpsmith.state.candidate import make_candidate
from warpsmith.sub_agents.autotune import MOST_FROZEN, autotunes, frozen

TUNED = """
@triton.autotune(configs=[{configs}], key=["n"])
@triton.jit
def k(x, n, BLOCK: tl.constexpr):
    pass
"""


def configs(count: int) -> str:
    return ", ".join(f"triton.Config({{'BLOCK': {64 << n}}}, num_warps={n + 1})" for n in range(count))


def candidate(count: int):
    return make_candidate(TUNED.format(configs=configs(count)), "triton", origin="llm", note="rows")


def test_each_configuration_becomes_a_candidate_that_tunes_nothing():
    made = frozen(candidate(3))
    assert len({each.id for each in made}) == 3
    assert not any(autotunes(each.source) for each in made)
    assert [each.origin for each in made] == ["llm"] * 3
    assert made[0].note == "rows frozen to triton.Config({'BLOCK': 64}, num_warps=1)"
    assert ["'BLOCK': 64" in each.source for each in made] == [True, False, False]


def test_of_many_configurations_an_even_choice_with_both_ends_is_taken():
    made = frozen(candidate(20))
    assert len(made) == MOST_FROZEN
    assert "num_warps=1)" in made[0].source
    assert "num_warps=20)" in made[-1].source


@pytest.mark.parametrize("source", ["@triton.jit\ndef k(x):\n    pass\n", TUNED.format(configs=configs(1)), "def f(:"])
def test_what_tunes_nothing_stays_as_it_is(source):
    plain = make_candidate(source, "triton")
    assert frozen(plain) == [plain]


def test_a_list_that_cannot_be_read_is_said_so():
    made_up = make_candidate(TUNED.format(configs=configs(2)).replace("[triton", "make() + [triton"), "triton")
    (only,) = frozen(made_up)
    assert only.source == made_up.source
    assert "autotunes itself: not frozen" in only.note


def test_two_autotuners_are_frozen_together():
    source = TUNED.format(configs=configs(2)) + TUNED.format(configs=configs(3)).replace("def k", "def j")
    made = frozen(make_candidate(source, "triton"))
    assert len(made) == 3
    assert all(ast.unparse(ast.parse(each.source)).count("triton.Config") == 2 for each in made)
