"""The comparison of variants: rows, resuming, and what a summary counts."""

import json
import threading
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripted.collaborators import SOURCE, ScriptedHarness, ScriptedPlanner, ScriptedWriter

from warpsmith.evals import run_search
from warpsmith.evals.run_search import (
    VARIANTS,
    SearchFile,
    SearchRow,
    add_row,
    kept_as_they_end,
    load,
    main,
    row_of,
    summarised,
)
from warpsmith.graph import optimize
from warpsmith.graph.services import Collaborators
from warpsmith.graph.stages import staged
from warpsmith.state.channels import Context
from warpsmith.state.errors import InfraError, InvalidInput


def run(tmp_path: Path, variant: str, fates: dict[int, str]) -> SearchRow:
    problem = tmp_path / "p.py"
    problem.write_text(SOURCE)
    given = Collaborators(
        harness=ScriptedHarness(),
        planner=ScriptedPlanner(),
        writers={language: ScriptedWriter(language, fates=fates) for language in ("triton", "cuda")},
    )
    result = optimize(problem, given=given, out=str(tmp_path / "runs"), **VARIANTS[variant])
    return row_of("p", variant, result, "abc")


def test_every_variant_is_a_setting_that_exists():
    for settings in VARIANTS.values():
        staged(Context(**settings))


def test_a_stage_that_accepts_what_is_wrong_is_counted(tmp_path):
    rows = [run(tmp_path, variant, {64: "full"}) for variant in ("default", "stage search")]
    found = summarised(rows)
    assert (found["default"].passed, found["default"].wrongly_accepted) == (1, 0)
    assert (found["stage search"].passed, found["stage search"].wrongly_accepted) == (0, 1)
    assert rows[1].message == "off by one in row 3"
    assert rows[1].claimed > rows[0].speedup


def test_a_file_keeps_the_newest_row_of_each_run(tmp_path):
    out, about = tmp_path / "search.json", SearchFile(budget=18, gpu="made up")
    for variant, speedup in (("chain", 1.5), ("default", 2.0), ("chain", 1.7)):
        add_row(out, SearchRow(problem="p", variant=variant, status="passed", speedup=speedup, verdict="win"), about)
    found = load(out, 18)
    assert [(row.variant, row.speedup) for row in found.rows] == [("default", 2.0), ("chain", 1.7)]
    assert found.summary["chain"].geometric_mean_speedup == 1.7
    with pytest.raises(InvalidInput, match="made with --budget 18"):
        load(out, 20)
    out.write_text(json.dumps([1]))
    with pytest.raises(InvalidInput, match="not a file of this command"):
        load(out, 18)


def test_means_are_over_problems_that_every_variant_ran_on_to_its_end():
    """A mean over three problems cannot be set beside one over four; and without a kernel the baseline stays."""

    def row(problem: str, variant: str, status: str, speedup: float | None = None) -> SearchRow:
        return SearchRow(problem=problem, variant=variant, status=status, speedup=speedup)

    found = summarised(
        [
            row("p", "default", "passed", 4.0),
            row("p", "chain", "nothing"),
            row("q", "default", "passed", 1.0),
            row("q", "chain", "passed", 9.0),
            row("r", "default", "passed", 100.0),
            row("r", "chain", "InfraError"),
            row("s", "default", "passed", 100.0),
        ]
    )
    assert [(each.compared, each.geometric_mean_speedup) for each in found.values()] == [(2, 2.0), (2, 3.0)]
    alone = summarised([row("r", "default", "InfraError")])["default"]
    assert (alone.compared, alone.geometric_mean_speedup) == (0, None)


def test_a_file_of_several_processes_tells_each_of_their_commands_once(tmp_path):
    out = tmp_path / "search.json"
    for problem, command in (("p", "run --gpu 0"), ("q", "run --gpu 1"), ("r", "run --gpu 0")):
        about = SearchFile(budget=18, command=command)
        add_row(out, SearchRow(problem=problem, variant="chain", status="nothing"), about)
    assert load(out, 18).command == "run --gpu 0; run --gpu 1"


@pytest.mark.parametrize("module", ["run_search", "measure_library", "run_suite", "run_llm"])
def test_no_command_runs_dry_where_a_gpu_is_required(module, tmp_path, capsys):
    main_of = import_module(f"warpsmith.evals.{module}").main
    assert main_of(["--dry-run", "--require-gpu", "--out", str(tmp_path / "x.json"), "--runs", str(tmp_path)]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_an_unknown_variant_is_bad_input(tmp_path, capsys):
    assert main(["--variants", "best", "--out", str(tmp_path / "x.json")]) == 2
    assert "no 'best'; known: default, chain" in capsys.readouterr().err


def test_variants_of_a_problem_run_at_the_same_time(tmp_path, monkeypatch):
    together = threading.Barrier(2, timeout=60)

    def runner(_bench, _settings):
        def search(path: Path):
            together.wait()
            raise InfraError(f"{path.name}: no GPU")

        return search

    monkeypatch.setattr(
        run_search, "Bench", lambda **_: SimpleNamespace(harness=ScriptedHarness(), close=list, read_ahead=id)
    )
    monkeypatch.setattr(run_search, "runner", runner)
    out = tmp_path / "search.json"
    wanted = ["--problems", "row_max_argmax,linear_gelu", "--variants", "default,chain", "--threads", "2"]
    assert main([*wanted, "--out", str(out), "--runs", str(tmp_path)]) == 1
    rows = {(row.problem, row.variant): row.message for row in load(out, Context().budget).rows}
    assert len(rows) == 4
    assert rows["linear_gelu", "chain"] == "linear_gelu.py: no GPU"


def test_an_interruption_keeps_what_is_done_and_starts_nothing_new():
    begun, row = [], SearchRow(problem="p", variant="chain", status="nothing")
    first, later = Future(), Future()
    first.set_result(row)

    def keep(kept: SearchRow) -> None:
        begun.append(kept)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept_as_they_end([first, later], keep)
    assert (begun, later.cancelled()) == ([row], True)
