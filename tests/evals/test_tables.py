"""README's tables say what the result files say."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from warpsmith.evals.compare_strategies import Comparison, ProblemSearch, SearchReport
from warpsmith.evals.diagnosis_set import collect, load
from warpsmith.evals.library_rows import LibraryResults, LibraryRow
from warpsmith.evals.library_rows import summarised as library_summary
from warpsmith.evals.run_search import SearchRow, summarised
from warpsmith.evals.search_tables import diagnosis_table, library_line
from warpsmith.evals.suite import SUITE
from warpsmith.evals.suite_report import SuiteReport, SuiteRow, save
from warpsmith.evals.table_text import NOT_MEASURED, number
from warpsmith.evals.tables import ROOT, TABLES, filled, main
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


def test_the_museums_table_has_a_column_for_each_tier_that_was_run(tmp_path: Path) -> None:
    counts = {"exploits_total": 3, "exploits_rejected": 3, "honest_total": 2, "honest_accepted": 2, "honest_repeat": 4}
    names = {"families": {"a": {}}, "missed": [], "flipped": [], "gpu": "G", "rows": []}
    for file, tier in (("exploits-h200.json", "quick"), ("exploits-full-h200.json", "full")):
        (tmp_path / file).write_text(json.dumps({**counts, **names, "tier": tier, "repeat": 1}))
    text = filled("<!-- table:museum -->\n<!-- /table -->\n", tmp_path)
    assert "|  | tier quick | tier full |" in text
    assert "| verdicts on each | 1, controls 4 | 1, controls 4 |" in text


def test_the_table_of_hundreds_says_what_was_wrong_and_what_was_left(tmp_path: Path) -> None:
    found = {
        "candidates": 500,
        "ill": 50,
        "verdicts": 500,
        "wrong": 2,
        "processes_left": 1,
        "gpu": "G",
        "commit": "abc",
    }
    rest = {"gpu_memory_left_mib": None, "candidates_per_minute": 69.8}
    (tmp_path / "endurance-h200.json").write_text(json.dumps({**found, **rest}))
    text = filled("<!-- table:endurance -->\n<!-- /table -->\n", tmp_path)
    assert "| wrong verdicts | 2 |" in text
    assert "| GPU memory left, MiB | not known |" in text


def test_the_table_of_runs_with_a_model_has_what_became_of_each_answer(tmp_path: Path) -> None:
    row = {
        "problem": "p", "answers": [{"status": "plan"}, {"status": "compile_error"}], "commit": "abc", "verdict": "win",
        "tokens_by_role": {"planner": 3, "triton_writer": 4}, "baseline_ms": 2.0, "best_ms": 1.0, "speedup": 2.0,
    }  # fmt: skip
    (tmp_path / "llm-h200.json").write_text(json.dumps({"problems": [row], "gpu": "G"}))
    text = filled("<!-- table:models -->\n<!-- /table -->\n", tmp_path)
    assert "| p | plan, compile error | 7 | 2 | 1 | 2 | win |" in text


@pytest.mark.parametrize("name", [name for name, (_, file) in TABLES.items() if isinstance(file, str)])
def test_a_table_without_its_file_says_so(name: str, tmp_path: Path) -> None:
    assert filled(f"<!-- table:{name} -->\n<!-- /table -->\n", tmp_path).count(NOT_MEASURED) == 1


def test_a_recording_that_is_missing_says_so(tmp_path: Path) -> None:
    assert diagnosis_table(tmp_path / "counters.json") == NOT_MEASURED


def test_the_table_of_searches_sets_every_search_beside_the_default(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"best_ms": 1.0, "first_ms": 1.0, "reached": {}, "evaluations_to_99": {}, "curves": {}}
    report = SearchReport(
        default="phased",
        budgets=(20, 50),
        seeds=3,
        mean_of_medians={"phased": {"20": 0.99854, "50": 1.0}, "tpe": {"20": 0.9, "50": 0.99}},
        default_against={"tpe": {"20": outcome(1, 1, 0), "50": outcome(0, 1, 1)}},
        problems={
            "a": ProblemSearch(settings=138, failed=0, **nothing),
            "b": ProblemSearch(settings=2, failed=0, **nothing),
        },
        gpu="G",
        versions={"torch": "2"},
        grids_commit="abc, def",
        commit="later",
        command="c",
    )
    (tmp_path / "search-replay.json").write_text(report.model_dump_json())
    text = filled("<!-- table:search -->\n<!-- /table -->\n", tmp_path)
    assert "| phased | 0.9985 | 1.0000 | – | – |" in text
    assert "| tpe | 0.9000 | 0.9900 | 1/1/0 | 0/1/1 |" in text
    assert "2 grids with 140 settings in all, 3 seeds; the grids: G; torch 2; commits abc, def." in text


def outcome(better: int, equal: int, worse: int) -> Comparison:
    return Comparison(better=better, equal=equal, worse=worse)


def test_the_table_of_variants_has_what_came_of_every_run(tmp_path: Path) -> None:
    rows = (
        SearchRow(problem="p", variant="default", status="passed", speedup=1.456, verdict="win", commit="abc"),
        SearchRow(problem="p", variant="one", status="passed", speedup=1.2, verdict="tie", claimed=1.3, commit="abc"),
        SearchRow(problem="q", variant="default", status="nothing", commit="def"),
        SearchRow(problem="q", variant="one", status="InfraError", message="too noisy", commit="def"),
        SearchRow(problem="r", variant="one", status="nothing", claimed=2.0, wrongly_accepted=True, commit="def"),
    )
    write_variants(tmp_path, rows, summarised(rows))
    text = filled("<!-- table:variants -->\n<!-- /table -->\n", tmp_path)
    assert "| problem | default | one |" in text
    assert "| p | 1.46 win | 1.20 tie |" in text
    assert "| q | nothing | machine failed |" in text
    assert "| r | – | nothing |" in text
    assert "| wrongly accepted | – | 1 of 2 |" in text, "nothing of the default was audited"
    assert "Budget 16 evaluations; G; torch 2; commits abc, def." in text


def write_variants(results: Path, rows: Sequence[SearchRow], summary: Mapping[str, Any]) -> None:
    about = {"budget": 16, "gpu": "G", "versions": {"torch": "2"}}
    made = {name: each.model_dump() for name, each in summary.items()}
    content = {**about, "summary": made, "rows": [row.model_dump() for row in rows]}
    (results / "search-h200.json").write_text(json.dumps(content))


def test_means_of_variants_are_the_files_own_and_say_over_how_many_problems(tmp_path: Path) -> None:
    row = SearchRow(problem="p", variant="default", status="passed", speedup=1.5, verdict="win", commit="abc")
    made = summarised([row])["default"]
    few, none = (
        made.model_copy(update={"geometric_mean_speedup": 1.111, "compared": 4}),
        made.model_copy(update={"geometric_mean_speedup": None}),
    )
    write_variants(tmp_path, [row], {"default": few, "chain": none})
    text = filled("<!-- table:variants -->\n<!-- /table -->\n", tmp_path)
    assert "| geometric mean over 4 problems | 1.11 | – |" in text
    assert "| p | 1.50 win | – |" in text


def test_the_table_of_the_library_ends_with_the_files_summary(tmp_path: Path) -> None:
    found = {"speedup_without": 1.5, "speedup_with": 1.75, "best_at_without": 4, "best_at_with": 1, "level_at_with": 1}
    rows = (
        LibraryRow(problem="p", status="better", offered=1, best_from_library=True, commit="abc", **found),
        LibraryRow(problem="q", status="empty", commit="abc"),
    )
    made = LibraryResults(budget=6, seed_budget=18, gpu="G", rows=rows, summary=library_summary(rows))
    (tmp_path / "library-h200.json").write_text(made.model_dump_json())
    text = filled("<!-- table:library -->\n<!-- /table -->\n", tmp_path)
    assert "| p | 1.50 | 1.75 | 4 | 1 | better |" in text
    assert "| q | – | – | – | – | empty |" in text
    assert "Budget 6 evaluations; 2 problems: 1 better, 1 empty; geometric mean speedup 1.50 without, 1.75 with" in text
    assert "the best came from the library on 1; the first evaluation came up to the best without on 1." in text


def test_where_nothing_was_timed_the_librarys_summary_has_no_means() -> None:
    text = library_line(library_summary([LibraryRow(problem="q", status="empty")]))
    assert text.startswith("1 problem: 1 empty; the best came from the library on 0")


def test_the_table_of_diagnoses_runs_the_rules_on_recordings_of_the_same_code(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    for name, expect in (("changed", "memory"), ("new", "memory"), ("right", "memory"), ("wrong", "spills")):
        text = f'"""{name}.\n\nproblem: relu_wide\nexpect: {expect}\n"""\n'
        (tmp_path / "kernels" / f"{name}.py").write_text(text)
    ids = {kernel.name: kernel.source_id for kernel in collect(root=tmp_path)}
    real = load()
    wide = next(each for each in real.kernels if each.name == "memory_wide_loads")
    kernels = tuple(
        wide.model_copy(update={"name": name, "source_id": source_id})
        for name, source_id in {"changed": "of other code", "right": ids["right"], "wrong": ids["wrong"]}.items()
    )
    path = tmp_path / "counters.json"
    path.write_text(real.model_copy(update={"kernels": kernels}).model_dump_json())
    lines = diagnosis_table(path).splitlines()
    assert lines[1] == "|---|---|---|---|"
    assert lines[2:4] == ["| changed | memory | not recorded | – |", "| new | memory | not recorded | – |"]
    assert lines[4].startswith("| right | memory | memory | relu keeps DRAM ")
    assert lines[5].startswith("| wrong | spills | memory | relu keeps DRAM ")
    assert lines[-1].startswith("1 of 4 named as built; counters: ")
