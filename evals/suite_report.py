"""The file that a suite run leaves: one row a problem and the scores over all of them.

Scores are taken over the whole suite, not over the rows that happen to be there: a problem that was not run, or for
which nothing was verified, counts as not solved.
"""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import ValidationError

from ..state.base import Record
from ..state.errors import InvalidInput
from ..state.scores import ProblemScore, fast_p, geometric_mean
from ..state.trajectory import Result
from ..tools.whole_file import write_whole
from .result_file import locked
from .suite import SUITE, WIDER, Family, SuiteProblem

# What a row says for each outcome of a run.
STATUS = {"verified": "passed", "estimated": "unverified", "nothing": "nothing_passed"}


class SuiteRow(Record):
    """One problem's result. Times are medians on the main workload; speedups are geometric means over the workloads."""

    name: str
    family: Family
    dtype: str
    status: str
    """`passed`, `unverified` (a dry run's estimate), `nothing_passed`, `invalid_problem`, `infra_error`, `crashed`."""
    verdict: str = ""
    """`win`, `tie` or `loss` on the main workload, by the paired gate; empty where nothing passed."""
    language: str = ""
    eager_ms: float | None = None
    compile_ms: float | None = None
    best_baseline_ms: float | None = None
    best_baseline: str = ""
    best_ms: float | None = None
    best_triton_ms: float | None = None
    best_cuda_ms: float | None = None
    speedup: float | None = None
    """Against the best baseline."""
    speedup_over_eager: float | None = None
    speedup_over_compile: float | None = None
    estimated_sol_fraction: float | None = None
    sol_fraction: float | None = None
    custom_share: float | None = None
    candidates_tried: int = 0
    statuses: dict[str, int] = {}
    seconds: float = 0.0
    """Wall time of the run, without measuring baselines."""
    baseline_seconds: float = 0.0
    stop_reason: str = ""
    error_class: str = ""
    message: str = ""
    source_id: str = ""
    """Digest of the problem file that was run: a resumed run does a changed problem again."""
    commit: str = ""
    command: str = ""
    """What measured this row; empty in files from before it was kept."""

    @property
    def speedup_on_main(self) -> float | None:
        """Against the best baseline on the main workload alone, by medians."""
        return self.best_baseline_ms / self.best_ms if self.best_baseline_ms and self.best_ms else None

    @property
    def done(self) -> bool:
        """Whether running it again would tell nothing new: failures of the machine do not count as results."""
        return self.status not in ("infra_error", "crashed")


class SuiteReport(Record):
    """Rows with what they were measured on and how."""

    rows: tuple[SuiteRow, ...] = ()
    gpu: str = ""
    versions: dict[str, str] = {}
    commit: str = ""
    command: str = ""
    dry_run: bool = False
    settings: dict[str, Any] = {}


def row_of(problem: SuiteProblem, result: Result, source_id: str, commit: str) -> SuiteRow:
    """The row that a finished run of one problem gives."""
    return SuiteRow(
        name=problem.name,
        family=problem.family,
        dtype=problem.dtype,
        status=STATUS[result.outcome],
        verdict=result.verdict if result.outcome == "verified" else "",
        language=result.language or "",
        eager_ms=result.eager_ms,
        compile_ms=result.compile_ms,
        best_baseline_ms=result.baseline_ms,
        best_baseline=result.baseline_name,
        best_ms=result.ms,
        best_triton_ms=result.best_ms_by_language.get("triton"),
        best_cuda_ms=result.best_ms_by_language.get("cuda"),
        speedup=result.speedup,
        speedup_over_eager=result.speedup_over.get("eager"),
        speedup_over_compile=result.speedup_over.get("compile"),
        estimated_sol_fraction=result.estimated_sol_fraction,
        sol_fraction=result.sol_fraction,
        custom_share=result.custom_share,
        candidates_tried=result.tried,
        statuses=result.statuses,
        seconds=round(result.seconds - result.baseline_seconds, 2),
        baseline_seconds=round(result.baseline_seconds, 2),
        stop_reason=result.stop_reason,
        error_class=result.error_class,
        source_id=source_id,
        commit=commit,
    )


def measured_of(names: Collection[str]) -> tuple[SuiteProblem, ...]:
    """The problems that a file with rows of these names is about: the suite, or all those wider than it."""
    return WIDER if names and set(names) <= {problem.name for problem in WIDER} else SUITE


def summary(rows: Iterable[SuiteRow]) -> dict[str, Any]:
    """The scores over the suite. Geometric means and `median_sol_fraction` are over the problems that passed."""
    by_name = {row.name: row for row in rows}
    whole = measured_of(by_name)
    found = [by_name[problem.name] for problem in whole if problem.name in by_name]
    missing = [ProblemScore(correct=False)] * (len(whole) - len(found))
    passed = [row for row in found if row.status == "passed"]
    scores: dict[str, Any] = {}
    for suffix, field in (
        ("", "speedup"),
        ("_on_main", "speedup_on_main"),
        ("_over_eager", "speedup_over_eager"),
        ("_over_compile", "speedup_over_compile"),
    ):
        ran = [ProblemScore(row.status == "passed", getattr(row, field), row.custom_share) for row in found]
        for p in (0, 1, 2):
            scores[f"fast_{p}{suffix}"] = round(fast_p(ran + missing, p), 4)
    fractions = [row.sol_fraction for row in passed if row.sol_fraction is not None]
    return {
        **scores,
        "geomean_speedup": _mean(row.speedup for row in passed),
        "geomean_speedup_on_main": _mean(row.speedup_on_main for row in passed),
        "median_sol_fraction": round(median(fractions), 4) if fractions else None,
        "problems_in_suite": len(whole),
        "problems_run": len(found),
        "problems_passed": len(passed),
        "verdicts": {verdict: sum(row.verdict == verdict for row in passed) for verdict in ("win", "tie", "loss")},
        "seconds_per_problem": round(sum(row.seconds for row in found) / max(1, len(found)), 1),
    }


def _mean(speedups: Iterable[float | None]) -> float:
    return round(geometric_mean(speedup for speedup in speedups if speedup is not None), 4)


def dump(report: SuiteReport) -> str:
    """JSON text: scores first, then conditions, then `problems`, in the suite's order."""
    place = {problem.name: number for number, problem in enumerate((*SUITE, *WIDER))}
    rows = sorted(report.rows, key=lambda row: place.get(row.name, len(place)))
    content = {**summary(rows), **report.model_dump(mode="json", exclude={"rows"})}
    content["commits"] = sorted({row.commit for row in rows})
    content["problems"] = [row.model_dump(mode="json") for row in rows]
    return json.dumps(content, indent=1) + "\n"


def load(path: Path) -> SuiteReport:
    """A report from its file; an empty one where there is none. Raises InvalidInput for a file of another kind."""
    if not path.exists():
        return SuiteReport()
    try:
        content = json.loads(path.read_text())
        known = {name: content[name] for name in SuiteReport.model_fields if name in content}
        return SuiteReport.model_validate({**known, "rows": content["problems"]})
    except (ValueError, TypeError, KeyError, ValidationError) as error:
        raise InvalidInput(f"{path}: not a suite report ({type(error).__name__}); choose another --out") from error


def merged(old: SuiteReport, new: SuiteReport) -> SuiteReport:
    """The new conditions, with the old rows that have no new one.

    Raises InvalidInput where the two were measured on different GPUs, or one of them on none.
    """
    if old.gpu and new.gpu and (old.gpu, old.dry_run) != (new.gpu, new.dry_run):
        raise InvalidInput(f"rows measured on {old.gpu!r} and on {new.gpu!r} do not mix: choose another --out")
    replaced = {row.name for row in new.rows}
    kept = [row for row in old.rows if row.name not in replaced]
    told = [row if row.command else row.model_copy(update={"command": new.command}) for row in new.rows]
    return new.model_copy(update={"rows": (*kept, *told)})


def save(path: Path, new: SuiteReport) -> SuiteReport:
    """Merges into the file, whole or not at all; several processes may do so at once. Returns what it holds now."""
    with locked(path):
        report = merged(load(path), new)
        write_whole(path, dump(report))
    return report
