"""What a run with written answers leaves: one row a problem, with what became of every answer."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...state.base import Record
from ...state.candidate import make_candidate
from ...state.errors import InvalidInput
from ...state.problem import Problem
from ...state.trajectory import Result
from ...sub_agents.answers.reading import Wanted, read_kernel
from ...sub_agents.llm.written import WrittenAnswer
from ...sub_agents.models.protocol import Answer
from ...tools.compiler_output import decisive_line
from ...tools.harness import Harness
from ...tools.whole_file import write_whole
from ..result_file import locked
from ..suite_report import STATUS


class AnswerRow(Record):
    """One answer and what became of it."""

    role: str
    status: str
    """The candidate's status in the trajectory; `compile_error` of a draft that was repaired before it was judged;
    `unusable` where no kernel or plan was in it; `truncated`; `plan`; `not_asked` where the run ended before."""
    why: str = ""
    """What the harness or the reader said."""
    note: str = ""
    """What the answers' file says about it."""
    candidate: str = ""
    round: int | None = None
    speedup: float | None = None
    """As first judged, over the best baseline; an estimate in a dry run."""
    completion_tokens: int = 0


class LlmRow(Record):
    """One problem."""

    problem: str
    written_by: str
    status: str
    uncovered: str = ""
    """What the offline planner says of it."""
    rounds: int = 0
    answers: tuple[AnswerRow, ...] = ()
    tokens_by_role: dict[str, int] = {}
    tokens_estimated: bool = True
    """No endpoint counted them: they are an upper bound from the texts' lengths."""
    speedup: float | None = None
    """Of the winner's final check, geometric mean over the workloads, over the best baseline."""
    estimated_sol_fraction: float | None = None
    verdict: str = ""
    language: str = ""
    best_ms: float | None = None
    baseline: str = ""
    baseline_ms: float | None = None
    eager_ms: float | None = None
    compile_ms: float | None = None
    sol_fraction: float | None = None
    custom_share: float | None = None
    gain_per_1000_tokens: float | None = None
    stop_reason: str = ""
    seconds: float = 0.0
    message: str = ""
    source_id: str = ""
    """Digest of problem and answers: a resumed run does a changed pair again."""
    commit: str = ""

    @property
    def done(self) -> bool:
        return self.status not in ("infra_error", "crashed")


class LlmReport(Record):
    """Rows with what they were measured on."""

    rows: tuple[LlmRow, ...] = ()
    gpu: str = ""
    versions: dict[str, str] = {}
    commit: str = ""
    command: str = ""
    dry_run: bool = False


def row_of(written_by: str, result: Result, answers: Sequence[AnswerRow], **fields: Any) -> LlmRow:
    """A finished run as a row."""
    models = result.models
    return LlmRow(
        problem=result.problem,
        written_by=written_by,
        status=STATUS[result.outcome],
        uncovered=result.plan,
        rounds=max((entry.round for entry in result.trajectory), default=0),
        answers=tuple(answers),
        tokens_by_role=models.tokens_by_role if models else {},
        speedup=result.speedup,
        estimated_sol_fraction=result.estimated_sol_fraction,
        verdict=result.verdict,
        language=result.language or "",
        best_ms=result.ms,
        baseline=result.baseline_name,
        baseline_ms=result.baseline_ms,
        eager_ms=result.eager_ms,
        compile_ms=result.compile_ms,
        sol_fraction=result.sol_fraction,
        custom_share=result.custom_share,
        gain_per_1000_tokens=models.gain_per_1000_tokens if models else None,
        stop_reason=result.stop_reason,
        seconds=result.seconds,
        **fields,
    )


class Judged(Record):
    """What answers are looked up in: the run's result, and its problem in a harness that is still open."""

    result: Result
    problem: Problem

    def row(self, answer: Answer, written: WrittenAnswer, harness: Harness) -> AnswerRow:
        """What became of one answer that was given."""
        told: dict[str, Any] = {
            "role": written.role,
            "note": written.note,
            "completion_tokens": answer.usage.completion_tokens,
        }
        if written.role == "planner":
            return AnswerRow(status="plan" if answer.parsed is not None else "unusable", **told)
        read = read_kernel(answer, Wanted(reference=self.problem.source))
        if not read.source:
            status = "truncated" if answer.finish == "truncated" else "unusable"
            return AnswerRow(status=status, why=read.fault, **told)
        candidate = make_candidate(read.source, origin="llm")
        entry = next((entry for entry in self.result.trajectory if entry.id == candidate.id), None)
        told["candidate"] = candidate.id
        if entry is not None:
            speedup = entry.rank or None
            return AnswerRow(status=entry.status.value, why=entry.message, round=entry.round, speedup=speedup, **told)
        report = harness.compile(self.problem, candidate)
        status = "repeated_or_dropped" if report.ok else "compile_error"
        return AnswerRow(status=status, why=decisive_line(report.error), **told)


def answer_rows(
    given: Sequence[tuple[Answer, WrittenAnswer]], left: Sequence[WrittenAnswer], judged: Judged, harness: Harness
) -> list[AnswerRow]:
    """Every answer in the order in which they were given, and those never asked for at the end."""
    rows = [judged.row(answer, written, harness) for answer, written in given]
    return rows + [AnswerRow(role=written.role, status="not_asked", note=written.note) for written in left]


def load(path: Path) -> LlmReport:
    """A report file, empty where there is none. Raises InvalidInput for a file that is none."""
    if not path.exists():
        return LlmReport()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        kept = {name: data[name] for name in ("gpu", "versions", "commit", "command", "dry_run") if name in data}
        return LlmReport(rows=tuple(LlmRow.model_validate(row) for row in data["problems"]), **kept)
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise InvalidInput(f"{path}: is no report of run_llm; choose another --out") from error


def save(path: Path, report: LlmReport) -> None:
    """Writes the report, its rows in place of older ones of the same problems; others that are there stay."""
    with locked(path):
        new = {row.problem for row in report.rows}
        rows = sorted((*(r for r in load(path).rows if r.problem not in new), *report.rows), key=lambda r: r.problem)
        write_whole(path, json.dumps(as_json(report.model_copy(update={"rows": tuple(rows)})), indent=1) + "\n")


def as_json(report: LlmReport) -> dict[str, Any]:
    """The file's content: totals first."""
    rows = report.rows
    return {
        "problems_run": len(rows),
        "verified": sum(row.status == "passed" for row in rows),
        "faster": sum(row.status == "passed" and (row.speedup or 0) > 1 for row in rows),
        "wins": sum(row.status == "passed" and row.verdict == "win" for row in rows),
        "tokens": sum(sum(row.tokens_by_role.values()) for row in rows),
        **report.model_dump(mode="json", exclude={"rows"}),
        "problems": [row.model_dump(mode="json", exclude_defaults=False) for row in rows],
    }
