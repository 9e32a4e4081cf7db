"""Candidates that crash, hang, leak and exhaust memory among others that are right: no verdict lost, nothing left."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from warpsmith.evals import run_endurance


def test_one_in_ten_is_ill_by_each_illness_in_turn_and_all_are_different() -> None:
    all_cases = run_endurance.cases(500)
    kinds = Counter(case.name for case in all_cases)
    assert kinds.pop("well") == 450
    assert len(kinds) >= 4
    assert max(kinds.values()) - min(kinds.values()) <= 1
    assert sum(kinds.values()) == 50
    assert len({case.candidate.id for case in all_cases}) == 500


@pytest.fixture
def few_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same candidates on few rows: in Triton's interpreter each row of the Triton one is a program."""
    folder = tmp_path / "endurance"
    shutil.copytree(run_endurance.FOLDER, folder)
    problem = folder / "softmax.py"
    source = problem.read_text()
    for large, small in (
        ('"rows": 129', '"rows": 9'),
        ("(1, 65536)", "(1, 64)"),
        ("rows: int = 4096", "rows: int = 32"),
    ):
        assert large in source
        source = source.replace(large, small)
    problem.write_text(source)
    monkeypatch.setattr(run_endurance, "FOLDER", folder)


@pytest.mark.slow
@pytest.mark.usefixtures("few_rows")
def test_every_verdict_is_right_and_nothing_is_left(tmp_path: Path) -> None:
    out = tmp_path / "endurance.json"
    command = f"--dry-run --candidates 10 --ill-one-in 2 --threads 3 --commit none --out {out}"
    assert run_endurance.main(command.split()) == 0
    found = json.loads(out.read_text())
    assert (found["verdicts"], found["wrong"], found["processes_left"]) == (10, 0, 0), found["wrong_by_kind"]
    kinds = {name.partition(":")[0] for name in found["statuses"]}
    assert kinds == {"crash", "exhaust", "hang", "leak", "well"}


def test_wrong_input_is_one_line_and_exit_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_endurance.main(["--require-gpu", "--out", str(tmp_path / "x.json")]) == 2
    assert "--require-gpu" in capsys.readouterr().err
