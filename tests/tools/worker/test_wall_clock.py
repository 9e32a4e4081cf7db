"""How much wall time a claimed time explains, and what is known of a baseline that runs beside a candidate."""

from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from warpsmith.state.evaluation import Status
from warpsmith.tools.worker import pairs, timed, wall_clock
from warpsmith.tools.worker.buffers import Layout, spec_of
from warpsmith.tools.worker.session import CandidateFailed


@pytest.mark.parametrize("claimed_ms", [0.002, 0.1, 2.0, 300.0])
@pytest.mark.parametrize("own_host_ms", [0.02, 0.4])
def test_an_honest_claim_explains_its_own_time_and_python(claimed_ms, own_host_ms):
    assert wall_clock.explains(claimed_ms, own_host_ms, claimed_ms)
    assert wall_clock.explains(claimed_ms, own_host_ms, claimed_ms + 2 * own_host_ms + 0.3)


@pytest.mark.parametrize(("claimed_ms", "passed_ms"), [(1.0, 2.0), (5.0, 7.0), (0.001, 0.6), (100.0, 126.0)])
def test_a_claim_of_much_less_than_passed_explains_nothing(claimed_ms, passed_ms):
    assert not wall_clock.explains(claimed_ms, 0.02, passed_ms)


def test_slack_is_bounded_whatever_is_claimed():
    for claimed_ms in (0.001, 0.1, 1.0, 10.0):
        longest = max(ms / 1000 for ms in range(20_000) if wall_clock.explains(claimed_ms, 0.02, ms / 1000))
        assert longest - claimed_ms <= 0.25 * claimed_ms + 0.55


def test_what_a_burst_costs_beside_its_calls_is_measured_or_estimated_by_bytes():
    assert wall_clock.hop_ms(0.7, 10**9) == 0.7
    assert wall_clock.hop_ms(0.0, 10**9) == 0.0
    small, large = wall_clock.hop_ms(None, 10**3), wall_clock.hop_ms(None, 10 * 10**9)
    assert 0.1 < small < 1.0
    assert large > 2 * 2 * 10e9 / 4.3e9, "two copies, read and written, at what an H200 reaches"


def test_a_baseline_that_runs_slower_beside_a_candidate_is_noticed():
    assert timed._slowed(None, 100.0) == ""
    assert timed._slowed(1.0, 1.2) == ""
    assert timed._slowed(0.005, 0.008) == "", "microseconds scatter"
    assert "took 1.3000 ms beside this candidate and 1.0000 ms alone" in timed._slowed(1.0, 1.3)


def test_slowing_the_baseline_gains_little():
    assert timed._as_alone(None, [5.0, 6.0]) == [5.0, 6.0]
    assert timed._as_alone(1.0, [0.9, 1.05, 1.2]) == [0.9, 1.05, 1.2]
    counted = timed._as_alone(1.0, [1.1, 1.24, 1.4])
    assert 1.1 <= median(counted) <= 1.11
    assert counted[2] / counted[0] == pytest.approx(1.4 / 1.1), "one factor for all pairs"


def test_what_events_read_with_nothing_between_them_is_taken_off_and_nothing_is_free():
    assert timed._without(0.002, [0.012, 0.001]) == [pytest.approx(0.01), timed._LEAST_MS]


def held(monkeypatch: pytest.MonkeyPatch, bursts: list[float], claimed_ms: float, identity: bool = False) -> Any:
    """The wall clock of so long bursts of four calls held against a claim: the judge afterwards."""
    judge = SimpleNamespace(device=torch.device("cuda"), hop_ms={"w": 0.4})
    layout = SimpleNamespace(size_bytes=1000, specs=[])
    bench = SimpleNamespace(sets=4, output_layout=layout, input_layout=layout)
    duel: Any = SimpleNamespace(
        workload="w", described=[], bench=bench, own=SimpleNamespace(host_ms=0.05), expected=SimpleNamespace(mutated=[])
    )
    numbers: list[int] = []

    def burst(_duel: Any, _plan: Any, number: int) -> float:
        numbers.append(number)
        return bursts[len(numbers) - 1]

    monkeypatch.setattr(pairs, "burst_ms", burst)
    timed._hold_wall_clock(judge, SimpleNamespace(identity=identity), duel, pairs.Plan(), claimed_ms)  # type: ignore[arg-type]
    judge.numbers = numbers
    return judge


def test_one_burst_that_is_explained_is_enough(monkeypatch):
    assert len(held(monkeypatch, [4.6], 1.0).numbers) == 1
    judge = held(monkeypatch, [80.0, 4.6], 1.0)
    assert len(judge.numbers) == 2
    assert judge.numbers[1] >= judge.numbers[0] + 4, "other draws each time"


def test_clocks_that_disagree_in_every_burst_leave_a_time_unverified(monkeypatch):
    with pytest.raises(CandidateFailed, match=r"clocks disagree on w: 4\.900 ms a call passed outside, 1\.0") as caught:
        held(monkeypatch, [20.0, 20.0, 20.0], 1.0)
    assert caught.value.status is Status.UNVERIFIED


def test_the_reference_itself_tells_what_a_burst_costs(monkeypatch):
    assert held(monkeypatch, [5.0, 4.7, 9.0], 1.0, identity=True).hop_ms == {"w": pytest.approx(0.7)}
    assert held(monkeypatch, [3.0, 3.0, 3.0], 1.0, identity=True).hop_ms == {"w": 0.0}


@pytest.mark.parametrize(
    ("strides", "shape", "reordered"),
    [
        ([1, 3], (3, 4), True),
        ([4, 1], (3, 4), False),
        ([4, 99, 1], (3, 1, 4), False),
        ([1, 99, 3], (3, 1, 4), True),
        ([120, 1, 24, 4], (2, 4, 5, 6), True),
        ([8, 1], (3, 4), False),
        ([0, 1], (3, 4), False),
        ([1], (3, 4), False),
        ([1.0, 3], (3, 4), False),
        (None, (3, 4), False),
        ([], (), False),
    ],
)
def test_an_order_of_dimensions_is_told_from_everything_else(strides, shape, reordered):
    assert wall_clock._reordered(strides, shape) is reordered


def test_rearranging_an_output_costs_what_it_costs_here(monkeypatch):
    assert wall_clock._copy_ms(torch.empty(64, 64), torch.randn(64, 64).t()) > 0
    monkeypatch.setattr(wall_clock, "_copy_ms", lambda _, source: 1.0 if source.is_contiguous() else 5.0)
    wanted = Layout([spec_of(torch.empty(2048, 2048))])
    turned, plain = [{"strides": [1, 2048]}], [{"strides": [2048, 1]}]
    assert wall_clock.rearranging_ms(turned, wanted, torch.device("cpu")) == 4.0
    assert wall_clock.rearranging_ms(plain, wanted, torch.device("cpu")) == 0
    assert wall_clock.rearranging_ms([{"strides": [1, 1 << 60]}], wanted, torch.device("cpu")) == 0


def test_an_output_in_another_order_may_take_longer_to_bring_over(monkeypatch):
    monkeypatch.setattr(wall_clock, "rearranging_ms", lambda *_: 4.0)
    held(monkeypatch, [20.0, 20.0, 20.0], 1.0)
    with pytest.raises(CandidateFailed, match="clocks disagree"):
        held(monkeypatch, [40.0, 40.0, 40.0], 1.0)
