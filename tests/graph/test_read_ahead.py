"""The next problem is read while one is optimised, and whatever is wrong with it waits for its turn."""

import threading
from pathlib import Path
from typing import Any

from scripted.collaborators import SOURCE, ScriptedHarness

from warpsmith.graph import optimize_batch
from warpsmith.graph.bench import Bench
from warpsmith.state.errors import InfraError
from warpsmith.state.problem import Problem


class Loads(ScriptedHarness):
    """Notes which problem each thread reads; baselines wait until the next problem was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.main = threading.current_thread()
        self.read: list[tuple[str, bool]] = []

    def load(self, path: Path) -> Problem:
        self.read.append((path.stem, threading.current_thread() is self.main))
        return super().load(path)


def folder_of(tmp_path: Path, *sources: str) -> Path:
    folder = tmp_path / "problems"
    folder.mkdir()
    for name, source in zip("abc", sources, strict=False):
        (folder / f"{name}.py").write_text(f"{source}# {name}\n")
    return folder


def test_each_problem_is_read_once_ahead_of_its_turn_and_the_first_is_not(tmp_path: Path, given: Any) -> None:
    harness = Loads()
    folder = folder_of(tmp_path, SOURCE, SOURCE, SOURCE)
    done = optimize_batch(folder, given=given(harness=harness), out=str(tmp_path / "runs"), budget=2)
    assert [row.ok for row in done.rows] == [True] * 3
    assert [name for name, in_turn in harness.read if not in_turn] == ["b", "c"]
    assert [name for name, in_turn in harness.read if in_turn] == ["a", "b", "c"]


def test_a_bad_file_is_told_in_its_turn_only(tmp_path: Path, given: Any) -> None:
    folder = folder_of(tmp_path, SOURCE, "no python at all (\n", SOURCE)
    done = optimize_batch(folder, given=given(harness=Loads()), out=str(tmp_path / "runs"), budget=2)
    assert [(row.ok, row.cause) for row in done.rows] == [(True, ""), (False, "InvalidProblem"), (True, "")]


def test_what_is_done_is_not_read_ahead(tmp_path: Path, given: Any) -> None:
    folder = folder_of(tmp_path, SOURCE, SOURCE, SOURCE)
    settings: dict[str, Any] = {"out": str(tmp_path / "runs"), "budget": 2}
    optimize_batch(folder, given=given(), **settings)
    (folder / "a.py").write_text(f"{SOURCE}# another\n")
    harness = Loads()
    optimize_batch(folder, given=given(harness=harness), **settings)
    assert harness.read == [("a", True)]


def test_a_bench_that_is_closed_waits_for_what_it_reads(tmp_path: Path, given: Any) -> None:
    let_go, seen = threading.Event(), []

    class Slow(ScriptedHarness):
        def load(self, path: Path) -> Problem:
            let_go.wait(5)
            seen.append("read")
            raise InfraError("the harness is closed")

    folder = folder_of(tmp_path, SOURCE)
    bench = Bench(given(harness=Slow()), out=str(tmp_path / "runs"))
    bench.read_ahead(folder / "a.py")
    assert seen == []
    let_go.set()
    bench.close()
    assert seen == ["read"]
