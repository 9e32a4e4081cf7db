"""README's tables say what the result files say."""

import json
from pathlib import Path

import pytest

from warpsmith.evals.suite import SUITE
from warpsmith.evals.suite_report import SuiteReport, SuiteRow, save
from warpsmith.evals.tables import NOT_MEASURED, ROOT, filled, main, number
from warpsmith.state.errors import InvalidInput

TEXT = "# T\n<!-- table:suite -->\nold\n<!-- /table -->\nkept\n<!-- table:harness -->\n<!-- /table -->\n"


def write_suite(results: Path) -> None:
    row = SuiteRow(
        name=SUITE[0].name, family="pointwise", dtype="float32", status="passed", verdict="win", speedup=1.4567,
        eager_ms=12.345, best_triton_ms=0.012345, sol_fraction=0.876, custom_share=1.0,
    )  # fmt: skip
    save(results / "suite-h200.json", SuiteReport(rows=(row,), gpu="G", commit="abc"))


def test_without_results_tables_say_that_nothing_was_measured(tmp_path: Path) -> None:
    assert filled(TEXT, tmp_path).count(NOT_MEASURED) == 2


def test_tables_are_filled_and_text_between_them_stays(tmp_path: Path) -> None:
    write_suite(tmp_path)
    (tmp_path / "harness-h200.json").write_text(
        json.dumps({"identity_ratio": 1.004, "candidates_per_minute": {"triton": 41.2}, "gpu": "G"})
    )
    text = filled(TEXT, tmp_path)
    assert f"| {SUITE[0].name} | pointwise | float32 | 12.3 | – | – | 0.0123 | – | 1.46 | 0.88 | 1.00 | win |" in text
    assert "| candidates_per_minute.triton | 41.2 |" in text
    assert "\nkept\n" in text
    assert "old" not in text
    assert filled(text, tmp_path) == text, "filling twice changes nothing"


def test_check_fails_exactly_when_the_readme_is_behind(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(TEXT)
    options = ["--readme", str(readme), "--results", str(tmp_path)]
    assert main([*options, "--check"]) == 1
    assert main(options) == 0
    assert main([*options, "--check"]) == 0
    write_suite(tmp_path)
    assert main([*options, "--check"]) == 1


def test_an_unknown_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no table 'speed'"):
        filled("<!-- table:speed -->\n<!-- /table -->", tmp_path)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0, "0"), (1234.5, "1234"), (12.345, "12.3"), (0.000012345, "0.000012")]
)
def test_numbers_are_short_and_never_scientific(value: float | None, text: str) -> None:
    assert number(value) == text


def test_the_readme_is_in_step_with_the_committed_results() -> None:
    assert main(["--check"]) == 0


def test_the_readme_counts_the_suite() -> None:
    text = (ROOT / "README.md").read_text()
    assert f"all {len(SUITE)} problems of the suite" in text
    assert f"`evals/problems/` holds {len(SUITE)} of them" in text


def test_the_museums_table_names_what_was_not_rejected_and_every_commit(tmp_path: Path) -> None:
    counts = {"exploits_total": 3, "exploits_rejected": 2, "honest_total": 2, "honest_accepted": 2, "repeat": 2}
    names = {"families": {"a": {}}, "missed": ["hostile/a/x"], "flipped": [], "tier": "quick", "gpu": "G"}
    rows = [{"verdicts": [{"commit": "abc"}, {"commit": "def"}]}]
    (tmp_path / "exploits-h200.json").write_text(json.dumps({**counts, **names, "rows": rows}))
    text = filled("<!-- table:museum -->\n<!-- /table -->\n", tmp_path)
    assert "| hostile candidates rejected | 2 of 3 |" in text
    assert "| not rejected every time | hostile/a/x |" in text
    assert "commits abc, def" in text


def test_the_table_of_runs_with_a_model_has_what_became_of_each_answer(tmp_path: Path) -> None:
    row = {
        "problem": "p", "answers": [{"status": "plan"}, {"status": "compile_error"}], "commit": "abc", "verdict": "win",
        "tokens_by_role": {"planner": 3, "triton_writer": 4}, "baseline_ms": 2.0, "best_ms": 1.0, "speedup": 2.0,
    }  # fmt: skip
    (tmp_path / "llm-h200.json").write_text(json.dumps({"problems": [row], "gpu": "G"}))
    text = filled("<!-- table:models -->\n<!-- /table -->\n", tmp_path)
    assert "| p | plan, compile error | 7 | 2 | 1 | 2 | win |" in text
