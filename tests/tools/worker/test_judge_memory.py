"""What a judge does where memory is short: what it kept for others goes before anybody is refused."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from warpsmith.tools.worker import buffers, known_expectations
from warpsmith.tools.worker import judge as judges
from warpsmith.tools.worker.expectation import Expectation
from warpsmith.tools.worker.known_expectations import KnownExpectations

KEY = ("default", "normal", 0, "timed")


def short_of_memory(monkeypatch: pytest.MonkeyPatch, failures: int) -> tuple[KnownExpectations, list[str]]:
    """Expectations with something kept, whose comparisons do not fit the first few times; and the tries so far."""
    made = KnownExpectations(SimpleNamespace(models={"timed": None}, unit_in=0.0))  # type: ignore[arg-type]
    made._known[KEY] = Expectation(None, [], [])
    tries: list[str] = []

    def expect(*_: Any) -> str:
        tries.append("once")
        if len(tries) <= failures:
            raise torch.OutOfMemoryError("no room")
        return "expected"

    monkeypatch.setattr(known_expectations, "expect", expect)
    return made, tries


def test_expected_values_of_others_go_first(monkeypatch):
    known, _ = short_of_memory(monkeypatch, 1)
    assert known.on("timed", []) == "expected"
    assert known._known == {}


def test_what_still_does_not_fit_is_said(monkeypatch):
    known, tries = short_of_memory(monkeypatch, 2)
    with pytest.raises(torch.OutOfMemoryError):
        known.on("timed", [])
    assert len(tries) == 2


def test_nothing_is_dropped_where_all_fits(monkeypatch):
    known, _ = short_of_memory(monkeypatch, 0)
    assert known.on("timed", []) == "expected"
    assert known._known


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
