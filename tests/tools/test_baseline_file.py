"""Cached baselines: whole or not at all, and only for the problem, GPU and versions that they were timed on."""

import json
import os
from pathlib import Path

import pytest

from warpsmith.state.device import DeviceSheet
from warpsmith.state.errors import InvalidInput
from warpsmith.state.problem import Problem, Workload
from warpsmith.state.timing import Baseline, Baselines
from warpsmith.tools.baseline_file import BaselineFile
from warpsmith.tools.device_sheets import target_sheet

VERSIONS = {"torch": "2.11.0", "triton": "3.6.0", "python": "3.12.3"}


def problem(source: str = "a") -> Problem:
    return Problem(name="p", path="p.py", source=source, workloads=(Workload(name="default"),))


def sheet(**changes: object) -> DeviceSheet:
    return target_sheet("sm_90", VERSIONS).model_copy(update=changes)


def baselines(of: Problem, ms: float = 1.0, on: DeviceSheet | None = None) -> Baselines:
    device = on or sheet()
    entry = Baseline(name="eager", workload="default", ms=ms)
    return Baselines(problem_id=of.id, gpu=device.name, versions=device.versions, entries=(entry,))


def test_what_is_written_is_read_by_the_next_process(tmp_path):
    path = tmp_path / "deep" / "baselines.json"
    BaselineFile(path).write(baselines(problem(), 2.5))
    (entry,) = BaselineFile(path).read(problem(), sheet())
    assert entry.ms == 2.5


def test_another_problem_gpu_or_torch_knows_nothing(tmp_path):
    file = BaselineFile(tmp_path / "b.json")
    file.write(baselines(problem()))
    assert file.read(problem("b"), sheet()) == []
    assert file.read(problem(), sheet(name="another GPU")) == []
    assert file.read(problem(), sheet(versions={**VERSIONS, "torch": "2.12.0"})) == []
    assert file.read(problem(), sheet(versions={**VERSIONS, "triton": "3.7.0"})) == []


def test_another_python_is_no_reason_to_time_again(tmp_path):
    file = BaselineFile(tmp_path / "b.json")
    file.write(baselines(problem()))
    assert len(file.read(problem(), sheet(versions={**VERSIONS, "python": "3.13.0"}))) == 1


def test_without_a_path_it_remembers_for_this_process():
    file = BaselineFile(None)
    file.write(baselines(problem()))
    assert len(file.read(problem(), sheet())) == 1


def test_writing_again_replaces_one_problem_and_keeps_the_others(tmp_path):
    path = tmp_path / "b.json"
    file = BaselineFile(path)
    file.write(baselines(problem("a"), 1.0))
    file.write(baselines(problem("b"), 2.0))
    file.write(baselines(problem("a"), 3.0))
    again = BaselineFile(path)
    assert [again.read(problem(s), sheet())[0].ms for s in "ab"] == [3.0, 2.0]


def test_two_processes_with_one_file_keep_each_others_entries(tmp_path):
    path = tmp_path / "b.json"
    first, second = BaselineFile(path), BaselineFile(path)
    first.write(baselines(problem("a"), 1.0))
    second.write(baselines(problem("b"), 2.0))
    again = BaselineFile(path)
    assert [again.read(problem(s), sheet())[0].ms for s in "ab"] == [1.0, 2.0]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "b.json"
    file = BaselineFile(path)
    file.write(baselines(problem()))
    before = path.read_text()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="space"):
        file.write(baselines(problem("b")))
    assert path.read_text() == before


def test_nothing_but_the_file_is_left(tmp_path):
    BaselineFile(tmp_path / "b.json").write(baselines(problem()))
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"key": {"problem_id": 1}}', '{"key": []}'])
def test_a_file_of_another_kind_is_one_line_that_names_it(tmp_path: Path, text: str):
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        BaselineFile(path)
    assert str(caught.value).startswith(f"{path}: no baselines file")
    assert "\n" not in str(caught.value)


def test_the_file_is_plain_json_that_can_be_committed(tmp_path):
    path = tmp_path / "b.json"
    BaselineFile(path).write(baselines(problem()))
    (entry,) = json.loads(path.read_text()).values()
    assert entry["entries"][0]["name"] == "eager"
