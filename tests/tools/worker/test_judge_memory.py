"""What a judge does where memory is short: what it kept for others goes before anybody is refused."""

from typing import Any

import pytest
import torch

from warpsmith.tools.worker import buffers
from warpsmith.tools.worker import judge as judges


def short_judge(monkeypatch: pytest.MonkeyPatch, failures: int) -> Any:
    """A judge with something kept, whose comparisons do not fit the first few times."""
    made: Any = object.__new__(judges.Judge)
    made.models, made.unit_in, made._expectations = {"timed": None}, 0.0, {("kept",): object()}
    made.tries = 0

    def expect(*_: Any) -> str:
        made.tries += 1
        if made.tries <= failures:
            raise torch.OutOfMemoryError("no room")
        return "expected"

    monkeypatch.setattr(judges, "expect", expect)
    return made


def test_expected_values_of_others_go_first(monkeypatch):
    judge = short_judge(monkeypatch, 1)
    assert judge.expected_of("timed", []) == "expected"
    assert judge._expectations == {}


def test_what_still_does_not_fit_is_said(monkeypatch):
    judge = short_judge(monkeypatch, 2)
    with pytest.raises(torch.OutOfMemoryError):
        judge.expected_of("timed", [])
    assert judge.tries == 2


def test_nothing_is_dropped_where_all_fits(monkeypatch):
    judge = short_judge(monkeypatch, 0)
    assert judge.expected_of("timed", []) == "expected"
    assert judge._expectations


def test_a_shared_buffer_takes_what_pytorch_keeps_for_reuse(monkeypatch):
    tries: list[int] = []

    def allocated(size_bytes: int) -> str:
        tries.append(size_bytes)
        if len(tries) == 1:
            raise torch.OutOfMemoryError("no room")
        return "buffer"

    monkeypatch.setattr(buffers, "DeviceBuffer", allocated)
    assert buffers.allocate(7, torch.device("cuda")) == "buffer"
    assert tries == [7, 7]


def test_large_workloads_have_two_sets_of_buffers_and_tiny_ones_eight():
    assert [judges._sets(size) for size in (0, 1000, 10 << 20, 16 << 20, 40 << 20, 13 << 30)] == [8, 8, 6, 4, 2, 2]
