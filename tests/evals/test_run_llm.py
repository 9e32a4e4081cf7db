"""Runs with written answers: the shipped files are sound, and every answer's fate is in the report."""

import json
from pathlib import Path

import pytest
from scripted.answers import REFERENCE, said
from scripted.collaborators import ScriptedHarness

from warpsmith.evals import run_llm
from warpsmith.evals.llm.report import LlmReport, LlmRow, load, save
from warpsmith.evals.run_llm import Case, cases, pending, run_all, run_case
from warpsmith.state.errors import InfraError, InvalidInput
from warpsmith.sub_agents.answers.reading import Wanted, read_code
from warpsmith.sub_agents.llm.written import WrittenAnswer, WrittenAnswers, read_written

SHIPPED = cases()
PLAN = WrittenAnswer(
    role="planner", text=json.dumps({"strategies": [{"name": "scan", "expected_speedup": 2, "why": "one pass"}]})
)


def test_there_are_at_least_six_problems_and_each_file_says_who_wrote_it():
    assert len(SHIPPED) >= 6
    for case in SHIPPED:
        assert case.problem.is_file()
        assert "language model" in case.written.written_by


@pytest.mark.parametrize("case", SHIPPED, ids=lambda case: case.name)
def test_shipped_answers_hold_wrong_ones_and_end_in_a_kernel(case):
    written = case.written.answers
    assert written[0].role == "planner"
    assert any(answer.note for answer in written)
    source = case.problem.read_text()
    readable = [read_code(a.text, Wanted(reference=source)).source for a in written if a.role != "planner"]
    assert readable[-1] is not None
    assert sum(source is not None for source in readable) >= 3


def test_unknown_problems_and_shards_are_refused():
    with pytest.raises(InvalidInput, match="no answers for 'nope'"):
        cases("nope")
    with pytest.raises(InvalidInput, match="--shard"):
        cases(shard="2/2")
    names = [case.name for case in SHIPPED]
    assert sorted(c.name for shard in ("0/2", "1/2") for c in cases(shard=shard)) == sorted(names)


def written(*answers: WrittenAnswer) -> WrittenAnswers:
    settings = {"languages": "triton", "budget": 4, "width": 1, "conversations": 1}
    return WrittenAnswers(problem="running_sum", written_by="a test", settings=settings, answers=answers)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    problem = tmp_path / "running_sum.py"
    problem.write_text(REFERENCE)
    answers = (
        WrittenAnswer(role="planner", text="Just fuse it."),
        PLAN,
        said(16),
        said(128, "compile"),
        said(128, role="repairer"),
        said(32).model_copy(update={"finish": "truncated"}),
        WrittenAnswer(role="triton_writer", text="I cannot help with that."),
        said(64),
        *[said(tile) for tile in (8, 4, 2, 512, 1024)],
    )
    return Case(problem=problem, written=written(*answers))


def run(case: Case, tmp_path: Path) -> LlmRow:
    return run_case(case, ScriptedHarness(), {"out": str(tmp_path / "runs"), "max_concurrency": 1}, "c0ffee")


def test_every_answer_has_its_fate_in_the_row(case, tmp_path):
    row = run(case, tmp_path)
    assert (row.status, row.written_by, row.commit) == ("passed", "a test", "c0ffee")
    assert row.speedup == pytest.approx(2.0)
    fates = [(answer.role, answer.status) for answer in row.answers]
    assert fates[:8] == [
        ("planner", "unusable"),
        ("planner", "plan"),
        ("triton_writer", "passed"),
        ("triton_writer", "compile_error"),
        ("repairer", "passed"),
        ("triton_writer", "truncated"),
        ("triton_writer", "unusable"),
        ("triton_writer", "passed"),
    ]
    assert row.answers[7].speedup == pytest.approx(2.0)
    assert ("triton_writer", "not_asked") in fates
    assert set(row.tokens_by_role) == {"planner", "triton_writer", "repairer"}
    assert row.tokens_estimated


def test_a_report_keeps_other_problems_rows_and_counts_what_is_faster(case, tmp_path):
    out = tmp_path / "llm.json"
    save(out, LlmReport(rows=(LlmRow(problem="other", written_by="x", status="passed", speedup=0.9),), gpu="a"))
    save(out, LlmReport(rows=(run(case, tmp_path),), gpu="b"))
    data = json.loads(out.read_text())
    assert [row["problem"] for row in data["problems"]] == ["other", "running_sum"]
    assert (data["verified"], data["faster"], data["gpu"]) == (2, 1, "b")
    assert load(out).rows[1].answers[3].status == "compile_error"


def test_a_resumed_run_does_only_what_is_new_changed_or_failed_for_the_machines_fault(case, tmp_path):
    out = tmp_path / "llm.json"
    assert pending([case], out) == [case]
    row = run(case, tmp_path)
    save(out, LlmReport(rows=(row,)))
    assert pending([case], out) == []
    save(out, LlmReport(rows=(row.model_copy(update={"status": "infra_error"}),)))
    assert pending([case], out) == [case]
    save(out, LlmReport(rows=(row,)))
    changed = Case(problem=case.problem, written=written(PLAN, said(64)))
    assert pending([changed], out) == [changed]


def test_a_failure_of_one_problem_is_its_row_and_the_others_go_on(case):
    def run(one: Case) -> LlmRow:
        if one is case:
            raise InfraError("the GPU fell off the bus")
        return LlmRow(problem=one.name, written_by="", status="passed")

    other = Case(problem=case.problem.with_name("other.py"), written=case.written)
    kept: list[LlmRow] = []
    rows = run_all([case, other], run, kept.append)
    assert [row.status for row in rows] == ["infra_error", "passed"]
    assert kept == rows


def test_a_file_that_is_no_record_of_answers_is_named_with_its_line(tmp_path):
    file = tmp_path / "bad.jsonl"
    file.write_text('{"problem": "p", "written_by": "x"}\n{"role": "triton_writer", "text": "a"}\n{"role"\n')
    with pytest.raises(InvalidInput, match=r"bad.jsonl: line 3 is not JSON"):
        read_written(file)
    file.write_text('{"problem": "p", "written_by": "x"}\n{"role": "chef", "text": "a"}\n')
    with pytest.raises(InvalidInput, match=r"bad.jsonl: answers.0.role"):
        read_written(file)
    file.write_text("")
    with pytest.raises(InvalidInput, match="bad.jsonl: problem"):
        read_written(file)


def test_the_command_refuses_an_out_file_that_is_something_else(tmp_path, capsys):
    out = tmp_path / "suite.json"
    out.write_text("[1, 2]")
    assert run_llm.main(["--out", str(out), "--resume", "--dry-run"]) == 2
    assert "is no report of run_llm" in capsys.readouterr().err
