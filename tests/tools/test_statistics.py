"""Summaries of run times, held against numbers worked out by hand or by counting coins."""

from math import comb
from random import Random

import pytest

from warpsmith.tools import statistics


def coverage(count: int) -> float:
    """Chance that the interval of that many samples holds the median: by exact binomial sums over ranks."""
    low, high = statistics.interval([float(rank) for rank in range(count)])
    return sum(comb(count, below) for below in range(int(low) + 1, int(high) + 1)) / 2**count


@pytest.mark.parametrize("count", [6, 7, 10, 11, 20, 21, 37, 50, 51, 100, 200, 1000, 5000])
def test_the_interval_covers_the_median_in_95_of_100_cases_and_is_no_wider_than_need_be(count):
    assert coverage(count) >= 0.95
    low, high = statistics.interval([float(rank) for rank in range(count)])
    assert sum(comb(count, below) for below in range(int(low) + 2, int(high))) / 2**count < 0.95


def test_fifty_samples_lose_seventeen_at_each_end():
    assert statistics.interval([float(i) for i in range(50, 0, -1)]) == (18.0, 33.0)


def test_few_samples_give_all_that_was_seen():
    assert statistics.interval([3.0]) == (3.0, 3.0)
    assert statistics.interval([3.0, 1.0, 2.0]) == (1.0, 3.0)


def test_one_hiccup_is_no_instability_and_many_are():
    steady = [1.0] * 39
    assert statistics.spread([*steady, 50.0]) == 0
    assert statistics.spread([1.0, 1.2] * 20) == pytest.approx(0.1 / 1.1)
    assert statistics.spread([1.0, 1.2] * 20) > statistics.SPREAD_LIMIT


def test_a_sample_holds_median_deviation_interval_and_count():
    found = statistics.sample([4.0, 1.0, 3.0, 2.0])
    assert (found.median_ms, found.low_ms, found.high_ms, found.count) == (2.5, 1.0, 4.0, 4)
    assert found.std_ms == pytest.approx(1.25**0.5)


def test_the_gate_asks_for_more_than_noise():
    baseline = [1.0 + 0.001 * (i % 7) for i in range(50)]
    assert statistics.paired_verdict(baseline, [b / 1.05 for b in baseline]) == "win"
    assert statistics.paired_verdict(baseline, [b * 1.05 for b in baseline]) == "loss"
    assert statistics.paired_verdict(baseline, [b / 1.005 for b in baseline]) == "tie"


def test_the_gate_pairs_so_that_a_drift_of_both_is_no_difference():
    drifting = [1.0 + 0.02 * i for i in range(50)]
    assert statistics.paired_verdict(drifting, [d / 1.03 for d in drifting]) == "win"


def test_a_gain_in_half_of_the_pairs_is_a_tie():
    assert statistics.paired_verdict([1.0] * 50, [0.8, 1.25] * 25) == "tie"


def test_sides_of_different_length_are_refused():
    with pytest.raises(ValueError, match="zip"):
        statistics.paired_verdict([1.0, 2.0], [1.0])


def test_very_short_calls_are_as_stable_as_events_can_tell() -> None:
    """A quarter of a microsecond is a tenth of a 2.5 us call and nothing of a millisecond."""
    tick = 0.00025
    assert statistics.stable([0.0025 + tick * (i % 3 - 1) for i in range(50)])
    assert not statistics.stable([0.0025 + 8 * tick * (i % 2) for i in range(50)])
    assert not statistics.stable([1.0 + 0.2 * (i % 2) for i in range(50)])


def test_times_that_scatter_about_a_known_median_are_stable() -> None:
    """Fifty samples with a spread of 6% know their median to 2%; two levels of equal weight do not."""
    generator = Random(3)
    scattered = [generator.gauss(0.1, 0.008) for _ in range(200)]
    assert statistics.spread(scattered) > 0.05
    assert statistics.stable(scattered)
    assert not statistics.stable([0.1 + 0.02 * (i % 2) for i in range(200)])
