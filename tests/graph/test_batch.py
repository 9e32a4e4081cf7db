"""Batches: failed rows, skipping, scores."""

import json
from pathlib import Path

import pytest
from scripted.collaborators import GPU, SOURCE, ScriptedHarness, ScriptedWriter

from warpsmith.graph import optimize_batch
from warpsmith.graph.batch import row_key
from warpsmith.graph.decisive import UNDECISIVE
from warpsmith.graph.settings import make_context
from warpsmith.state.channels import Context
from warpsmith.state.errors import InfraError, InvalidInput


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "problems"
    path.mkdir()
    for name in ("a", "b", "c"):
        (path / f"{name}.py").write_text(f"{SOURCE}# {name}\n")
    (path / "_shared.py").write_text("")
    return path


def test_one_bad_file_and_one_crash_are_failed_rows_and_the_rest_go_on(folder, tmp_path, given):
    class Crashes(ScriptedHarness):
        def vet(self, problem):
            if problem.name == "c":
                raise ZeroDivisionError("a bug")
            return super().vet(problem)

    (folder / "b.py").write_text("no python at all: (\n")
    done = optimize_batch(folder, given=given(harness=Crashes()), out=str(tmp_path / "runs"), budget=4)
    assert [(Path(row.file).name, row.ok, row.cause) for row in done.rows] == [
        ("a.py", True, ""),
        ("b.py", False, "InvalidProblem"),
        ("c.py", False, "ZeroDivisionError"),
    ]
    assert "a bug" in done.rows[2].message
    assert done.causes == {"InvalidProblem": 1, "ZeroDivisionError": 1}
    assert done.fast_p(0) == pytest.approx(1 / 3)


def test_a_rerun_skips_what_is_done_and_tries_again_what_failed(folder, tmp_path, given):
    class Breaks(ScriptedHarness):
        def baseline(self, problem):
            if problem.name == "b":
                raise InfraError("the GPU is busy")
            return super().baseline(problem)

    settings = {"out": str(tmp_path / "runs"), "budget": 4}
    optimize_batch(folder, given=given(harness=Breaks()), **settings)
    heard = []
    again = optimize_batch(folder, given=given(), on_row=lambda row, skipped: heard.append(skipped), **settings)
    assert heard == [True, False, True]
    assert not again.failed
    lines = (tmp_path / "runs" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["ok"] for line in lines] == [True, False, True, True]
    other = []
    optimize_batch(
        folder, given=given(), on_row=lambda row, skipped: other.append(skipped), **{**settings, "budget": 5}
    )
    assert other == [False, False, False]


def test_a_changed_problem_is_done_again(folder, tmp_path, given):
    settings = {"out": str(tmp_path / "runs"), "budget": 4}
    optimize_batch(folder, given=given(), **settings)
    (folder / "a.py").write_text(f"{SOURCE}# changed\n")
    heard = []
    optimize_batch(folder, given=given(), on_row=lambda row, skipped: heard.append(skipped), **settings)
    assert heard == [False, True, True]


def test_a_row_is_known_by_every_setting_but_those_that_decide_nothing(folder):
    def key(**settings: object) -> str:
        return row_key(folder / "a.py", make_context(settings), GPU)

    deciding = [
        {"model": "m"},
        {"model": "m", "models": {"planner": "p"}},
        {"writer": "human"},
        {"fits": 0},
        {"confirm": False},
        {"stop_at_sol_alone": 0.5},
        {"tokens": 9},
        {"library": "l.sqlite"},
    ]
    assert len({key(), *(key(**settings) for settings in deciding)}) == 1 + len(deciding)
    assert key(out="elsewhere", pace=1.0, max_concurrency=2, baselines="b.json", record="r.jsonl") == key()
    assert set(Context.model_fields) >= UNDECISIVE


def test_fast_p_counts_every_problem_against_each_baseline(folder, tmp_path, given):
    (folder / "b.py").write_text("broken\n")
    writers = {"triton": ScriptedWriter("triton", tiles=(64,), stages=1)}
    done = optimize_batch(folder, given=given(writers=writers), out=str(tmp_path / "runs"), languages="triton")
    # Two of three reach 2.0x over the best baseline (1 ms) and 4.0x over eager (2 ms).
    assert [done.fast_p(p) for p in (0, 1, 2)] == pytest.approx([2 / 3, 2 / 3, 0])
    assert [done.fast_p(p, "eager") for p in (0, 1, 2)] == pytest.approx([2 / 3, 2 / 3, 2 / 3])


def test_estimates_of_a_dry_run_never_count_as_correct(folder, tmp_path, given):
    done = optimize_batch(folder, given=given(harness=ScriptedHarness(dry=True)), out=str(tmp_path / "runs"), budget=4)
    assert not done.failed
    assert done.fast_p(0) == 0


def test_a_problem_without_a_kernel_fails_with_what_most_candidates_ended_in(folder, tmp_path, given):
    fates = {tile: "wrong" if tile > 8 else "compile" for tile in (16, 32, 256, 128, 64, 512, 1024, 8, 4, 2)}
    done = optimize_batch(folder, given=given(fates=fates), out=str(tmp_path / "runs"), languages="triton")
    assert done.causes == {"incorrect_numerical": 3}


def test_a_half_written_row_is_done_again(folder, tmp_path, given):
    settings = {"out": str(tmp_path / "runs"), "budget": 4}
    optimize_batch(folder, given=given(), **settings)
    results = tmp_path / "runs" / "results.jsonl"
    results.write_text(results.read_text()[:-20])
    heard = []
    optimize_batch(folder, given=given(), on_row=lambda row, skipped: heard.append(skipped), **settings)
    assert heard == [True, True, False]
    third = []
    optimize_batch(folder, given=given(), on_row=lambda row, skipped: third.append(skipped), **settings)
    assert third == [True, True, True]


def test_a_folder_without_problems_is_refused(tmp_path, given):
    with pytest.raises(InvalidInput, match="no such folder"):
        optimize_batch(tmp_path / "none", given=given())
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="holds no problem files"):
        optimize_batch(tmp_path / "empty", given=given())
