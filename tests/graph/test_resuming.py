"""Going on with a run: alone, with its own problem, from wherever it lies now, and from files that are whole."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from scripted.collaborators import SOURCE, ScriptedHarness

from warpsmith.graph import Interrupted, optimize, resume
from warpsmith.graph.api import ignored_changes
from warpsmith.graph.run_directory import RunDirectory, latest_run_directory
from warpsmith.graph.services import open_services
from warpsmith.graph.settings import make_context
from warpsmith.state.errors import InfraError, InvalidInput, InvalidProblem


class Breaks(ScriptedHarness):
    """Judges six candidates, and then no more."""

    def evaluate(self, problem, candidate, tier="quick"):
        if sum(what == "quick" for what, _ in self.calls) >= 6:
            raise InfraError("the GPU fell off the bus; reset it")
        return super().evaluate(problem, candidate, tier)


@pytest.fixture
def cut(problem_file, tmp_path, given) -> Path:
    """A run that broke in the middle."""
    with pytest.raises(InfraError):
        optimize(problem_file, given=given(harness=Breaks()), out=str(tmp_path / "runs"), max_concurrency=1)
    (run_dir,) = (tmp_path / "runs" / problem_file.stem).iterdir()
    return run_dir


def one_line(error: pytest.ExceptionInfo[Any]) -> str:
    (line,) = str(error.value).splitlines()
    return line


def test_a_run_that_somebody_goes_on_with_is_left_to_them(cut, given):
    with RunDirectory(cut).alone(), pytest.raises(InvalidInput, match="another process goes on") as refused:
        resume(cut, given=given())
    assert str(cut) in one_line(refused)
    assert resume(cut, given=given()).complete


def test_a_run_of_another_problem_is_refused(cut, problem_file, tmp_path, given):
    other = tmp_path / "other.py"
    other.write_text(f"{SOURCE}# another\n")
    with pytest.raises(InvalidInput, match=r"is a run of .*scripted_problem\.py") as refused:
        resume(cut, given=given(), problem=other)
    assert str(other) in one_line(refused)
    with pytest.raises(InvalidProblem, match="no such file"):
        resume(cut, given=given(), problem=tmp_path / "nowhere.py")
    renamed = problem_file.rename(tmp_path / "renamed.py")
    assert resume(cut, given=given(), problem=renamed).complete


def test_a_run_goes_on_where_its_directory_lies_now(cut, tmp_path, given):
    before = {path: path.read_bytes() for path in cut.rglob("*") if path.is_file()}
    copy = Path(shutil.copytree(cut, tmp_path / "copy"))
    harness = ScriptedHarness()
    result = resume(copy, given=given(harness=harness))
    assert (result.complete, result.run_dir, result.best_path) == (True, str(copy), str(copy / "best.py"))
    assert len([call for call in harness.calls if call[0] == "quick"]) == result.tried - 6
    assert {path: path.read_bytes() for path in cut.rglob("*") if path.is_file()} == before


def test_a_relative_run_directory_is_found_from_another_folder(problem_file, tmp_path, given, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InfraError):
        optimize(problem_file, given=given(harness=Breaks()), out="runs", max_concurrency=1)
    (run_dir,) = (tmp_path / "runs" / problem_file.stem).iterdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert resume(Path("..") / run_dir.relative_to(tmp_path), given=given()).complete
    assert list(elsewhere.iterdir()) == []


def test_a_finished_run_names_the_settings_that_it_does_not_take_up(problem_file, tmp_path, given):
    run_dir = Path(optimize(problem_file, given=given(), out=str(tmp_path), budget=2).run_dir)
    assert ignored_changes(run_dir, {"budget": 40, "seed": 0, "pace": 1.0, "library": "x.sqlite"}) == ("budget",)


def test_an_unfinished_run_takes_changed_settings_up(cut):
    assert ignored_changes(cut, {"budget": 40}) == ()


@pytest.mark.parametrize("step", ["device", "load"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, InvalidInput("--something: is wrong")])
def test_a_run_that_ended_before_anything_was_tried_leaves_no_directory(problem_file, tmp_path, given, step, error):
    class Stops(ScriptedHarness):
        pass

    def stop(*_: object) -> None:
        raise error

    setattr(Stops, step, stop)
    expected = Interrupted if error is KeyboardInterrupt else InvalidInput
    with pytest.raises(expected):
        optimize(problem_file, given=given(harness=Stops()), out=str(tmp_path / "runs"))
    assert list((tmp_path / "runs" / problem_file.stem).iterdir()) == []


def test_ctrl_c_while_a_run_is_being_closed_still_names_its_best(problem_file, tmp_path, given, monkeypatch):
    def impatient(_run_dir: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("warpsmith.graph.api.close_services", impatient)
    with pytest.raises(Interrupted) as stopped:
        optimize(problem_file, given=given(harness=Breaks()), out=str(tmp_path), max_concurrency=1)
    assert stopped.value.result is not None
    assert Path(str(stopped.value.result.best_path)).is_file()
    with pytest.raises(Interrupted) as again:
        resume(stopped.value.run_dir, given=given(harness=Breaks()))
    assert again.value.run_dir == stopped.value.run_dir


def test_a_checkpoint_that_cannot_be_written_is_named_and_the_run_can_be_gone_on_with(cut, given, monkeypatch):
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("warpsmith.graph.api._invoke", full)
        with pytest.raises(InfraError, match="disk is full") as told:
            resume(cut, given=given())
    assert one_line(told).startswith(f"{cut / 'checkpoint.sqlite'}: ")
    assert resume(cut, given=given()).complete


def test_the_latest_run_is_none_that_never_began(cut, problem_file, tmp_path):
    husk = cut.with_name("99999999-000000")
    husk.mkdir()
    (husk / "checkpoint.sqlite").write_bytes(b"")
    assert latest_run_directory(tmp_path / "runs", problem_file) == cut


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("trajectory.jsonl", "{}\n"),
        ("trajectory.jsonl", "\x00"),
        ("evaluations.jsonl", '{"kind": "quick"}\n'),
        ("evaluations.jsonl", '{"kind": "quick", "evaluation": {}}\n'),
        ("evaluations.jsonl", "3\n"),
        ("problem.json", "{"),
        ("plan.json", "[]"),
        ("report.json", '{"problem": 1}'),
        ("settings.json", "{}}"),
        ("checkpoint.sqlite", "no database at all, but long enough to look like the header of one" * 20),
    ],
)
def test_a_broken_file_of_a_run_is_one_line_that_names_it(cut, problem_file, given, name, content):
    (cut / name).write_text(content)
    with pytest.raises(InvalidInput) as refused:
        resume(cut, given=given(), problem=problem_file)
    assert one_line(refused).startswith(f"{cut / name}: cannot be read (")


def test_a_broken_checkpoint_is_told_before_anything_is_started(cut, given, monkeypatch):
    (cut / "checkpoint.sqlite").write_text("x" * 5000)
    monkeypatch.setattr("warpsmith.graph.api.open_services", lambda *_: pytest.fail("something was started"))
    with pytest.raises(InvalidInput, match="cannot be read"):
        resume(cut, given=given())


def test_a_harness_is_closed_where_something_after_it_cannot_be_opened(tmp_path, monkeypatch):
    harness = ScriptedHarness()
    monkeypatch.setattr("warpsmith.graph.services.open_harness_for", lambda context: harness)
    (tmp_path / "evaluations.jsonl").write_text("3\n")
    with pytest.raises(InvalidInput):
        open_services(tmp_path, make_context({}))
    assert harness.closed
