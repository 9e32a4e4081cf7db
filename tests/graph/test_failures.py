"""Failures across runs, counted from what scripted runs leave behind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted.collaborators import SOURCE, ScriptedHarness, kernel

from warpsmith.graph.cli import main
from warpsmith.graph.failures import alike, count_failures, run_directories
from warpsmith.graph.run_directory import RunDirectory
from warpsmith.state.candidate import Candidate, make_candidate
from warpsmith.state.errors import InvalidInput
from warpsmith.state.evaluation import Evaluation, Status


def fill(folder: Path, *candidates: Candidate) -> Path:
    """A run directory with these candidates judged."""
    folder.mkdir(parents=True)
    problem = folder / "p.py"
    problem.write_text(SOURCE)
    harness, run = ScriptedHarness(), RunDirectory(folder)
    for candidate in candidates:
        run.add_candidate(candidate)
        run.add_evaluation(harness.evaluate(harness.load(problem), candidate), "quick")
    return folder


def failing(run: Path, candidate: Candidate, status: Status, message: str) -> None:
    """Adds a candidate that failed with these words."""
    directory = RunDirectory(run)
    directory.add_candidate(candidate)
    found = Evaluation(candidate=candidate.id, problem="p", status=status, tier="quick", message=message)
    directory.add_evaluation(found, "quick")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs: tile 512 never compiles, tile 16 crashes or hangs, a model's file crashes, the rest passes."""
    first = fill(tmp_path / "runs" / "a" / "1", kernel("triton", 64), kernel("triton", 512, fate="compile"))
    second = fill(
        tmp_path / "runs" / "b" / "1",
        kernel("triton", 32),
        kernel("triton", 512, 2, fate="compile"),
        kernel("triton", 128, fate="wrong"),
    )
    failing(first, kernel("triton", 16, 1), Status.RUNTIME_ERROR, "illegal address at 0x7f12 in line 40")
    failing(second, kernel("triton", 16, 2), Status.RUNTIME_ERROR, "illegal address at 0x7aff in line 9")
    failing(second, kernel("triton", 16, 3), Status.TIMEOUT, "call took 10 s")
    failing(second, make_candidate("x = 1", "cuda", origin="llm"), Status.RUNTIME_ERROR, "illegal address at 0x1")
    return tmp_path / "runs"


def test_failures_are_counted_by_template_status_and_error(runs: Path) -> None:
    found = count_failures(run_directories([runs]))
    assert (found.runs, found.tried, found.failed) == (2, 9, 7)
    assert found.statuses == {"compile_error": 2, "runtime_error": 3, "incorrect_numerical": 1, "timeout": 1}
    counted = {(group.template, group.status.value): (group.count, group.tried) for group in found.groups}
    assert counted == {
        ("scripted", "compile_error"): (2, 8),
        ("scripted", "runtime_error"): (2, 8),
        ("scripted", "incorrect_numerical"): (1, 8),
        ("scripted", "timeout"): (1, 8),
        ("llm", "runtime_error"): (1, 1),
    }


def test_the_choices_that_all_failures_share_and_others_do_not_are_named(runs: Path) -> None:
    by_status = {(g.template, g.status): g for g in count_failures(run_directories([runs])).groups}
    refused = by_status["scripted", Status.COMPILE_ERROR]
    assert refused.shared_slots == {"tile": 512, "fate": "compile"}
    assert refused.slots["stages"] == {"1": 1, "2": 1}
    crashed = by_status["scripted", Status.RUNTIME_ERROR]
    assert crashed.error == "illegal address at # in line #"
    assert crashed.example == "illegal address at 0x7f12 in line 40"
    assert crashed.shared_slots == {"tile": 16, "fate": ""}


def test_each_failure_leads_to_its_source(runs: Path) -> None:
    found = count_failures(run_directories([runs]))
    assert sum(len(group.sources) for group in found.groups) == found.failed
    assert all(Path(source).is_file() for group in found.groups for source in group.sources)


def test_a_candidate_that_failed_only_at_a_later_tier_counts_once_as_failed(tmp_path: Path) -> None:
    candidate = kernel("triton", 64, fate="full")
    run = fill(tmp_path / "run", candidate)
    harness = ScriptedHarness()
    RunDirectory(run).add_evaluation(harness.evaluate(harness.load(run / "p.py"), candidate, "full"), "full")
    found = count_failures(run_directories([run]))
    assert (found.tried, found.failed, found.statuses) == (1, 1, {"incorrect_numerical": 1})


def test_a_half_written_line_and_a_lost_candidate_file_do_no_harm(runs: Path) -> None:
    run = runs / "a" / "1"
    for file in (run / "candidates").iterdir():
        file.unlink()
    with (run / "evaluations.jsonl").open("a") as lines:
        lines.write('{"kind": "quick", "evalua')
    assert count_failures(run_directories([run])).failed == 2


def test_messages_are_alike_up_to_numbers_and_addresses() -> None:
    assert alike("line 12: error: tile 64\n is 0xBEEF") == alike("line 7: error: tile 128 is 0x1") != alike("line 7")


def test_a_run_named_twice_is_counted_once(runs: Path) -> None:
    assert run_directories([runs / "a", runs, runs / "a" / "1"]) == (runs / "a" / "1", runs / "b" / "1")


@pytest.fixture
def warpsmith(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["failures", *map(str, arguments)])
        return (int(ended.value.code or 0), *capsys.readouterr())

    return run


def test_the_table_shows_counts_choices_and_where_to_look(warpsmith: Any, runs: Path) -> None:
    code, out, err = warpsmith(runs)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("7 of 9 candidates in 2 runs failed: 3 runtime_error")
    (at,) = [number for number, line in enumerate(lines) if "compile_error" in line and number]
    assert lines[at].split() == ["2", "8", "scripted", "compile_error", "no", "such", "tile"]
    assert lines[at + 1].strip() == "all with tile=512, fate=compile"
    assert lines[at + 2].strip().startswith(f"first in {runs}/a/1/candidates/")


def test_json_has_everything_on_one_line(warpsmith: Any, runs: Path) -> None:
    code, out, _ = warpsmith(runs, "--json")
    assert code == 0
    assert out.count("\n") == 1
    found = json.loads(out)
    assert found["failed"] == 7
    assert found["groups"][0]["slots"]["tile"] == {"512": 2}


def test_a_kind_keeps_only_its_failures(warpsmith: Any, runs: Path) -> None:
    assert json.loads(warpsmith(runs, "--kind", "timeout", "--json")[1])["statuses"] == {"timeout": 1}
    assert json.loads(warpsmith(runs, "--kind", "crash", "--json")[1])["failed"] == 3


def test_runs_without_failures_say_so(warpsmith: Any, tmp_path: Path) -> None:
    run = fill(tmp_path / "run", kernel("triton", 64))
    assert warpsmith(run)[:2] == (0, "0 of 1 candidate in 1 run failed\n")


@pytest.mark.parametrize("content", ['{"kind": "quick", "evaluation": {"status": "fine"}}\n', "[]\n", "\udcff\n"])
def test_a_broken_run_is_named_in_one_line(warpsmith: Any, tmp_path: Path, content: str) -> None:
    (tmp_path / "evaluations.jsonl").write_bytes(content.encode("utf-8", "surrogateescape"))
    code, out, err = warpsmith(tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "evaluations.jsonl" in err
    assert "leave that run out" in err


def test_wrong_input_is_one_line_and_exit_code_two(warpsmith: Any, tmp_path: Path) -> None:
    for arguments, says in (
        ([tmp_path / "nowhere"], "no such folder"),
        ([tmp_path], "no run directory"),
        ([tmp_path, "--kind", "bored"], "give one of compile, crash, timeout, wrong"),
    ):
        code, out, err = warpsmith(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), arguments
        assert says in err
    with pytest.raises(InvalidInput):
        run_directories([tmp_path])
