"""Scores are over the whole suite, and the file survives being written by several processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.evals.suite import SUITE, WIDER
from warpsmith.evals.suite_report import SuiteReport, SuiteRow, dump, load, merged, save, summary
from warpsmith.state.errors import InvalidInput

NAMES = [problem.name for problem in SUITE]
COUNT = len(SUITE)


def passed(name: str, speedup: float, **fields: object) -> SuiteRow:
    row = {"name": name, "family": "pointwise", "dtype": "float32", "status": "passed", "speedup": speedup}
    return SuiteRow.model_validate({**row, "custom_share": 1.0, "sol_fraction": 0.5, **fields})


def test_scores_by_hand() -> None:
    """Speedups 4, 1 and 0.25: geometric mean 1; one above 1, one above 2, three correct."""
    rows = [passed(NAMES[0], 4.0), passed(NAMES[1], 1.0, verdict="tie"), passed(NAMES[2], 0.25, sol_fraction=0.9)]
    scores = summary(rows)
    assert scores["fast_0"] == round(3 / COUNT, 4)
    assert scores["fast_1"] == round(1 / COUNT, 4)
    assert scores["fast_2"] == round(1 / COUNT, 4)
    assert scores["geomean_speedup"] == 1.0
    assert scores["median_sol_fraction"] == 0.5
    assert scores["problems_run"] == 3
    assert scores["verdicts"] == {"win": 0, "tie": 1, "loss": 0}


def test_a_problem_that_was_not_run_counts_as_not_solved() -> None:
    assert summary([])["fast_0"] == 0.0
    assert summary([passed(name, 1.5) for name in NAMES])["fast_1"] == 1.0
    assert summary([passed(name, 1.5) for name in NAMES[1:]])["fast_1"] == round((COUNT - 1) / COUNT, 4)


def test_a_row_of_a_problem_outside_the_suite_counts_for_nothing() -> None:
    assert summary([passed("somebody_elses", 9.0)])["fast_0"] == 0.0


def test_rows_of_wider_problems_are_scored_over_those() -> None:
    scores = summary([passed(WIDER[0].name, 1.5)])
    assert scores["problems_in_suite"] == len(WIDER)
    assert scores["fast_1"] == round(1 / len(WIDER), 4)
    assert summary([passed(WIDER[0].name, 1.5), passed(NAMES[0], 1.5)])["problems_in_suite"] == COUNT


def test_a_fallback_to_pytorch_is_correct_but_never_fast() -> None:
    scores = summary([passed(NAMES[0], 1.5, custom_share=0.0)])
    assert scores["fast_0"] > 0
    assert scores["fast_1"] == 0


def test_a_dry_runs_estimate_counts_for_nothing() -> None:
    row = passed(NAMES[0], 1.0).model_copy(
        update={"status": "unverified", "speedup": None, "estimated_sol_fraction": 3.0}
    )
    assert summary([row])["fast_0"] == 0.0


def test_file_round_trips_and_lists_problems_in_the_suites_order(tmp_path: Path) -> None:
    path = tmp_path / "results" / "suite.json"
    save(path, SuiteReport(rows=(passed(NAMES[5], 2.0),), gpu="G", commit="abc", command="c", versions={"torch": "2"}))
    save(path, SuiteReport(rows=(passed(NAMES[1], 3.0),), gpu="G", commit="def", command="d"))
    content = json.loads(path.read_text())
    assert [row["name"] for row in content["problems"]] == [NAMES[1], NAMES[5]]
    assert {"fast_0", "fast_1", "fast_2", "geomean_speedup", "median_sol_fraction"} <= set(content)
    assert {"gpu", "versions", "commit", "command"} <= set(content)
    assert dump(load(path)) == path.read_text()


def test_a_new_row_replaces_the_old_one() -> None:
    old, new = SuiteReport(rows=(passed("x", 1.0),)), SuiteReport(rows=(passed("x", 2.0),))
    assert [row.speedup for row in merged(old, new).rows] == [2.0]


def test_measurements_of_two_gpus_do_not_mix() -> None:
    with pytest.raises(InvalidInput, match="do not mix"):
        merged(SuiteReport(rows=(passed("x", 1.0),), gpu="A"), SuiteReport(rows=(passed("y", 1.0),), gpu="B"))


def test_another_kind_of_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "suite.json"
    path.write_text('{"problems": 3}')
    with pytest.raises(InvalidInput, match="not a suite report"):
        save(path, SuiteReport(rows=(passed("x", 1.0),)))
    assert path.read_text() == '{"problems": 3}'


WRITER = """
import sys
from pathlib import Path
from warpsmith.evals.suite_report import SuiteReport, SuiteRow, save

path, *names = sys.argv[1:]
for name in names:
    row = SuiteRow(name=name, family="pointwise", dtype="float32", status="passed")
    save(Path(path), SuiteReport(rows=(row,), gpu="G"))
"""


def test_two_processes_may_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "suite.json"
    shards = [[f"{shard}-{number}" for number in range(15)] for shard in range(2)]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), *names]) for names in shards]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert {row.name for row in load(path).rows} == {name for names in shards for name in names}
    assert [entry.name for entry in tmp_path.iterdir()] == ["suite.json"]


def test_rows_keep_the_command_that_measured_them(tmp_path: Path) -> None:
    out = tmp_path / "suite.json"
    for number in range(2):
        save(out, SuiteReport(rows=(passed(NAMES[number], 1.0),), command=f"measure {number}"))
    assert {row.name: row.command for row in load(out).rows} == {NAMES[0]: "measure 0", NAMES[1]: "measure 1"}
