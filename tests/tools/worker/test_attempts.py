"""What counts of several attempts at one measurement."""

from random import Random

import pytest

from warpsmith.tools.worker.attempts import MOST, Attempts


def scattered(middle_ms: float, share: float, rng: Random, count: int = 50) -> list[float]:
    return [middle_ms * rng.gauss(1.0, share) for _ in range(count)]


def steady(middle_ms: float, count: int = 50) -> list[float]:
    return [middle_ms * (1 + 0.001 * (number % 5)) for number in range(count)]


def test_a_steady_attempt_counts_alone():
    tried = Attempts()
    tried.add(scattered(0.2, 0.3, Random(0)), steady(0.2))
    assert not tried.stable
    tried.add(steady(0.1), steady(0.15))
    assert tried.stable
    assert (tried.candidate_ms, tried.baseline_ms) == (steady(0.1), steady(0.15))


@pytest.mark.parametrize("seed", range(20))
def test_a_kernel_that_scatters_by_nature_is_known_from_several_attempts(seed):
    # 8% of deviation leave the median of 50 samples open by 5% or more in most attempts, that of 200 by half of it.
    rng, tried = Random(seed), Attempts()
    for _ in range(MOST):
        tried.add(scattered(0.07, 0.08, rng), steady(0.07))
        if tried.stable:
            break
    assert tried.stable
    assert len(tried.candidate_ms) == len(tried.baseline_ms)
    assert sorted(tried.candidate_ms)[len(tried.candidate_ms) // 2] == pytest.approx(0.07, rel=0.05)


def test_attempts_that_differ_are_no_knowledge():
    tried = Attempts()
    for middle_ms in (0.07, 0.1, 0.07, 0.1):
        tried.add(scattered(middle_ms, 0.3, Random(1)), steady(0.07))
    assert not tried.stable
    assert "4 measurements" in tried.scatter()


def test_calls_that_are_now_fast_and_now_slow_are_not_known_by_which_are_more() -> None:
    tried = Attempts()
    for attempt in range(MOST):
        tried.add([0.01] * 29 + [0.1 + 0.001 * attempt] * 21, steady(0.07))
    assert not tried.stable


def test_an_attempt_that_something_slowed_tells_nothing_of_others():
    rng, tried = Random(3), Attempts()
    tried.add(scattered(0.14, 0.1, rng), steady(0.14), slowed=True)
    for _ in range(MOST - 1):
        tried.add(scattered(0.07, 0.08, rng), steady(0.07))
    assert tried.stable
    assert max(tried.baseline_ms) < 0.1


def test_the_note_says_how_wide_the_middle_half_is():
    tried = Attempts()
    tried.add([0.05, 0.06, 0.08, 0.09] * 10, [0.1] * 40)
    assert tried.scatter() == "spread 21.8%, the middle half 60.0 to 80.0 us, 1 measurements"
