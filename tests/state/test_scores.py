"""Scores against values computed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.state.scores import ProblemScore, fast_p, geometric_mean

SCORES = [
    ProblemScore(correct=True, speedup=3.0, custom_share=1.0),
    ProblemScore(correct=True, speedup=1.5, custom_share=0.4),
    ProblemScore(correct=True, speedup=1.0, custom_share=1.0),
    ProblemScore(correct=True, speedup=2.5, custom_share=0.0),
    ProblemScore(correct=False, speedup=9.0, custom_share=1.0),
]


@pytest.mark.parametrize(("p", "share"), [(0, 0.8), (1, 0.4), (2, 0.2), (3, 0.0)])
def test_fast_p_is_the_share_of_all_problems_that_are_correct_and_faster_than_p(p, share):
    assert fast_p(SCORES, p) == pytest.approx(share)


def test_a_kernel_without_work_of_its_own_counts_as_correct_but_never_as_fast():
    fallback = [ProblemScore(correct=True, speedup=5.0, custom_share=0.0)]
    assert (fast_p(fallback, 0), fast_p(fallback, 1)) == (1.0, 0.0)


def test_a_share_that_was_not_measured_does_not_count_against_a_kernel():
    assert fast_p([ProblemScore(correct=True, speedup=2.0)], 1) == 1.0


def test_a_speedup_that_was_not_measured_never_counts_as_fast():
    assert fast_p([ProblemScore(correct=True)], 1) == 0.0


def test_no_problems_score_zero():
    assert fast_p([], 0) == 0.0


def test_geometric_mean_by_hand():
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)
    assert geometric_mean([3.0, 0.0]) == 0.0
    assert geometric_mean([]) == 0.0
    with pytest.raises(ValueError, match="negative"):
        geometric_mean([2.0, -1.0])


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20), st.floats(0.1, 10))
def test_scaling_every_speedup_scales_the_geometric_mean(values, factor):
    assert geometric_mean(v * factor for v in values) == pytest.approx(factor * geometric_mean(values))
