"""From launches to calls: shares, libraries, and whether the judge's time can be true."""

import pytest

from warpsmith.state.timing import Sample, Timing
from warpsmith.tools.profiling import calls
from warpsmith.tools.profiling.metrics import CLOCK, DURATION
from warpsmith.tools.profiling.ncu import Launched

OWN = {"mine"}


def launched(name: str, ms: float, stream: str = "7", clock_hz: float | None = None) -> Launched:
    values = {DURATION: ms / 1e3, "dram__throughput.avg.pct_of_peak_sustained_elapsed": 0.5}
    return Launched(name, stream, "(1, 1, 1)", values | ({CLOCK: clock_hz} if clock_hz else {}))


def timed(ms: float, clock_mhz: int | None = None) -> Timing:
    sample = Sample(median_ms=ms, std_ms=0.0, low_ms=ms, high_ms=ms, count=50)
    return Timing(
        workload="default",
        candidate=sample,
        baseline=sample,
        baseline_name="eager",
        speedup=1.0,
        verdict="tie",
        stable=True,
        floor_ms=0.0,
        sol_ms=0.0,
        sm_clock_mhz=clock_mhz,
    )


def test_each_kernel_has_its_share_and_its_kind() -> None:
    found = calls.profiles([launched("mine", 0.3), launched("void at::native::fill(int)", 0.1)], OWN)
    assert [kernel.kind for kernel in found] == ["own", "pytorch"]
    assert [kernel.share for kernel in found] == pytest.approx([0.75, 0.25])
    assert found[0].duration_ms == pytest.approx(0.3)
    assert found[0].metrics == {"dram__throughput.avg.pct_of_peak_sustained_elapsed": 0.5}


def test_a_launch_without_a_duration_is_left_out() -> None:
    assert calls.profiles([Launched("mine", "7", "", {})], OWN) == ()


def test_equal_calls_are_told_apart_and_unequal_ones_are_not_guessed() -> None:
    one = [launched("mine", 0.1), launched("other", 0.2)]
    assert len(calls.split(one * 3, 3)) == 3
    assert len(calls.split([*one, launched("mine", 0.1)], 3)) == 1
    assert len(calls.split([launched("a", 1.0), launched("b", 1.0)], 2)) == 1


def test_times_and_launches_are_those_of_one_call() -> None:
    part = [launched("mine", 0.1), launched("mine", 0.3), launched("nvjet_tst", 0.1)]
    mine, library = calls.uses([part, part], OWN)
    assert (mine.kind, mine.launches, mine.ms) == ("own", 2, pytest.approx(0.4))
    assert (library.kind, library.launches, library.share) == ("cublas", 1, pytest.approx(0.2))


@pytest.mark.parametrize(
    ("judge_ms", "agrees"), [(0.2, True), (0.185, True), (0.178, True), (0.177, False), (0.1, False), (0.3, True)]
)
def test_the_judge_may_be_below_the_profiler_by_the_bound_and_above_it_by_anything(
    judge_ms: float, agrees: bool
) -> None:
    found = calls.against_judge([[launched("mine", 0.2)]], timed(judge_ms))
    assert found is not None
    assert found.bound_ms == pytest.approx(0.022)
    assert found.agrees is agrees


def test_time_that_no_kernel_explains_is_noted() -> None:
    found = calls.against_judge([[launched("mine", 0.2)]], timed(0.3))
    assert found is not None
    assert "0.1000 ms" in found.note


def test_streams_that_overlap_do_not_contradict_the_judge() -> None:
    overlapping = [launched("mine", 0.2, "7"), launched("mine", 0.2, "13")]
    found = calls.against_judge([overlapping], timed(0.21))
    assert found is not None
    assert (found.agrees, found.profiler_ms) == (True, pytest.approx(0.4))
    in_a_row = [launched("mine", 0.2, "7"), launched("mine", 0.2, "7")]
    contradicted = calls.against_judge([in_a_row], timed(0.21))
    assert contradicted is not None
    assert not contradicted.agrees


def test_a_lower_clock_under_the_profiler_is_no_contradiction() -> None:
    slow = [[launched("mine", 0.2, clock_hz=1.0e9)]]
    fast = [[launched("mine", 0.2, clock_hz=1.98e9)]]
    slow_found, fast_found = (calls.against_judge(part, timed(0.11, 1980)) for part in (slow, fast))
    assert slow_found is not None
    assert fast_found is not None
    assert (slow_found.agrees, fast_found.agrees) == (True, False)


def test_nothing_captured_is_no_timing() -> None:
    assert calls.against_judge([], timed(0.1)) is None
    assert calls.against_judge([[]], timed(0.1)) is None
