"""One problem's failure is one row, a resumed run does what is left, and what was measured is stated."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.evals import merge_results, provenance
from warpsmith.evals.run_suite import SuiteRun, main, run_suite
from warpsmith.evals.suite import SUITE, select
from warpsmith.evals.suite_report import load
from warpsmith.state.errors import InfraError, InvalidInput, InvalidProblem
from warpsmith.state.timing import Baseline, Baselines
from warpsmith.state.trajectory import Result
from warpsmith.tools.baseline_file import BaselineFile

MakeResult = Callable[..., Result]
THREE = SUITE[:3]


def run_of(out: Path, **fields: object) -> SuiteRun:
    return SuiteRun.model_validate({"problems": THREE, "out": out, "commit": "abc", "command": "the command", **fields})


class Script:
    """Answers as told for each problem, and notes what it was asked."""

    def __init__(self, make_result: MakeResult, **failures: Exception) -> None:
        self.asked: list[str] = []
        self._make_result = make_result
        self._failures = failures

    def __call__(self, path: Path) -> Result:
        self.asked.append(path.stem)
        if path.stem in self._failures:
            raise self._failures[path.stem]
        return self._make_result(path)


def test_rows_state_times_scores_and_conditions(tmp_path: Path, make_result: MakeResult) -> None:
    lines: list[str] = []
    run_suite(run_of(tmp_path / "suite.json"), Script(make_result), lines.append)
    content = json.loads((tmp_path / "suite.json").read_text())
    row = content["problems"][0]
    assert (row["eager_ms"], row["compile_ms"], row["best_baseline_ms"]) == (0.6, 0.32, 0.3)
    assert (row["best_triton_ms"], row["best_cuda_ms"], row["best_ms"]) == (0.2, 0.25, 0.2)
    assert (row["speedup"], row["speedup_over_eager"], row["verdict"]) == (1.5, 3.0, "win")
    assert (row["candidates_tried"], row["seconds"], row["custom_share"]) == (12, 8.0, 1.0)
    assert (content["gpu"], content["commit"], content["command"]) == ("Test GPU", "abc", "the command")
    assert content["versions"]["torch"] == "2.11.0"
    assert content["geomean_speedup"] == 1.5
    assert len(lines) == 3


def test_one_problems_failure_is_one_row(tmp_path: Path, make_result: MakeResult) -> None:
    """The first row fails before anything is known of the GPU, and still does not stop later rows from being kept."""
    names = [problem.name for problem in THREE]
    script = Script(make_result, **{names[0]: InvalidProblem("x.py: no Model"), names[1]: ZeroDivisionError("boom")})
    rows = run_suite(run_of(tmp_path / "suite.json"), script, lambda line: None)
    assert [row.status for row in rows] == ["invalid_problem", "crashed", "passed"]
    assert rows[1].message == "ZeroDivisionError: boom"
    assert load(tmp_path / "suite.json").gpu == "Test GPU"


def test_resume_runs_only_what_is_left_or_failed_for_the_machines_fault(
    tmp_path: Path, make_result: MakeResult
) -> None:
    names = [problem.name for problem in THREE]
    out = tmp_path / "suite.json"
    run_suite(run_of(out), Script(make_result, **{names[1]: InfraError("GPU lost")}), lambda line: None)
    again = Script(make_result)
    run_suite(run_of(out, resume=True), again, lambda line: None)
    assert again.asked == [names[1]]
    assert [row.status for row in load(out).rows] == ["passed"] * 3


def test_resume_refuses_other_settings(tmp_path: Path, make_result: MakeResult) -> None:
    out = tmp_path / "suite.json"
    run_suite(run_of(out, settings={"budget": 30}), Script(make_result), lambda line: None)
    with pytest.raises(InvalidInput, match="settings"):
        run_suite(run_of(out, resume=True, settings={"budget": 5}), Script(make_result), lambda line: None)


def test_an_interrupted_problem_leaves_no_row(tmp_path: Path, make_result: MakeResult) -> None:
    out = tmp_path / "suite.json"
    with pytest.raises(KeyboardInterrupt):
        run_suite(run_of(out), lambda path: make_result(path, complete=False), lambda line: None)
    assert load(out).rows == ()


def test_winners_are_copied_under_the_problems_name(tmp_path: Path, make_result: MakeResult) -> None:
    best = tmp_path / "best.py"
    best.write_text("class ModelNew: ...\n")
    run = run_of(tmp_path / "suite.json", problems=THREE[:1], winners=tmp_path / "winners")
    run_suite(run, lambda path: make_result(path, best_path=str(best)), lambda line: None)
    assert (tmp_path / "winners" / f"{THREE[0].name}.py").read_text() == best.read_text()


def test_shards_cover_the_suite_without_overlap() -> None:
    shards = [select("", f"{index}/3") for index in range(3)]
    assert sorted(problem.name for shard in shards for problem in shard) == sorted(problem.name for problem in SUITE)


@pytest.mark.parametrize("arguments", [["--problems", "nonsense"], ["--shard", "2/2"], ["--shard", "x"]])
def test_bad_selection_is_one_line_and_status_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_shards_measured_apart_merge_into_one_file(tmp_path: Path, make_result: MakeResult) -> None:
    for index in range(2):
        run = run_of(tmp_path / f"part{index}.json", problems=select("", f"{index}/2"))
        run_suite(run, Script(make_result), lambda line: None)
    parts = [str(tmp_path / "part0.json"), str(tmp_path / "part1.json")]
    assert merge_results.main([str(tmp_path / "suite.json"), *parts]) == 0
    assert json.loads((tmp_path / "suite.json").read_text())["fast_1"] == 1.0
    assert merge_results.main([str(tmp_path / "suite.json"), str(tmp_path / "missing.json")]) == 2


def baselines_file(path: Path, **best_ms: float) -> Path:
    """A baselines file as the harness writes it, one problem a keyword."""
    file = BaselineFile(path)
    for problem, ms in best_ms.items():
        entry = Baseline(name="eager", workload="default", ms=ms)
        file.write(Baselines(problem_id=problem, gpu="G", versions={"torch": "2"}, entries=(entry,)))
    return path


def test_baselines_measured_apart_merge_and_the_last_file_wins(tmp_path: Path) -> None:
    parts = [baselines_file(tmp_path / "a.json", p=1.0, q=2.0), baselines_file(tmp_path / "b.json", q=3.0, r=4.0)]
    out = tmp_path / "all.json"
    assert merge_results.main([str(out), *map(str, parts)]) == 0
    found = [Baselines.model_validate(value) for value in json.loads(out.read_text()).values()]
    assert {baselines.problem_id: baselines.entries[0].ms for baselines in found} == {"p": 1.0, "q": 3.0, "r": 4.0}


def test_a_suite_report_and_a_baselines_file_do_not_merge(tmp_path: Path, make_result: MakeResult) -> None:
    run_suite(run_of(tmp_path / "suite.json"), Script(make_result), lambda line: None)
    baselines = baselines_file(tmp_path / "a.json", p=1.0)
    assert merge_results.main([str(tmp_path / "out.json"), str(tmp_path / "suite.json"), str(baselines)]) == 2
    assert not (tmp_path / "out.json").exists()


def test_commit_comes_from_the_argument_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_COMMIT", "from-environment")
    assert provenance.commit("given") == "given"
    assert provenance.commit() == "from-environment"


def test_command_can_be_pasted_into_a_shell() -> None:
    assert provenance.command("m", ["--problems", "a b"]) == "python -m m --problems 'a b'"
