"""Baselines on the judge's side, on a CPU."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from warpsmith.state.problem import Workload
from warpsmith.tools.worker import baseline_side
from warpsmith.tools.worker.baseline_side import BaselineSide
from warpsmith.tools.worker.clock import Stopwatch

CPU = torch.device("cpu")
MAIN = Workload(name="default", input_bytes=1 << 10)


class Judged:
    """What a side asks of its judge."""

    def __init__(self) -> None:
        self.device = CPU
        self.module: Any = SimpleNamespace(path=Path("p.py"))
        self.models = {"timed": nn.Linear(4, 4)}
        self.stopwatch = Stopwatch(CPU)
        self.event_ms = 0.0
        self.flushed = self.switched = 0

    def flush(self) -> None:
        self.flushed += 1

    def switch(self) -> None:
        self.switched += 1

    def workload(self, _name: str) -> Workload:
        return MAIN

    def inputs(self, _workload: Workload, _kind: str, number: int) -> list[torch.Tensor]:
        return [torch.full((2, 4), float(number))]


@pytest.fixture
def side() -> BaselineSide:
    return BaselineSide(Judged())  # type: ignore[arg-type]


def test_a_baseline_is_built_once_and_anew_on_other_weights(side: BaselineSide) -> None:
    first = side.calls("eager", MAIN)
    assert side.calls("eager", MAIN) is first
    assert side.alone_ms[("eager", "default")] > 0
    side.judge.models["timed"] = nn.Linear(4, 4)
    side.forget()
    assert side.calls("eager", MAIN).call is side.judge.models["timed"]


def test_the_best_is_ready_once_it_is_used_and_eager_stands_in_until_then(side: BaselineSide) -> None:
    assert side.name(MAIN) == "eager"
    side.use({"default": "eager"})
    assert ("eager", "default") in side.alone_ms


def test_every_sample_follows_a_flush_and_a_switch_of_contexts(side: BaselineSide) -> None:
    found = side.time({"name": "eager", "workload": "default", "samples": 7})
    assert (found["name"], found["error"]) == ("eager", "")
    assert found["ms"] > 0
    assert side.judge.flushed >= 7  # type: ignore[attr-defined]
    assert side.judge.switched == side.judge.flushed  # type: ignore[attr-defined]


def test_a_baseline_that_does_not_build_is_told_with_its_reason(
    side: BaselineSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("no backend\nand more")

    monkeypatch.setattr(baseline_side.baselines, "build", fails)
    found = side.time({"name": "compile", "workload": "default"})
    assert (found["ms"], found["error"]) == (None, "RuntimeError: no backend")
