"""Tables of search and feedback: strategies on recorded grids, variants, the library, and what the rules diagnose."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..state.wording import counted
from .compare_strategies import SearchReport
from .diagnosis_set import KnownKernel, Recording, collect, load
from .library_rows import LibraryResults, LibraryRow, Summary
from .record_diagnosis import usable
from .table_text import NOT_MEASURED, markdown, measured_on, number

DASH = number(None)


def search_table(path: Path) -> str:
    """A search a row. Shares have four digits: what is left to gain is in the third and fourth."""
    if not path.exists():
        return NOT_MEASURED
    report = SearchReport.model_validate_json(path.read_text(encoding="utf-8"))
    head = ["search", *(f"share of the best at {budget}" for budget in report.budgets)]
    head += [f"{report.default} better/equal/worse at {budget}" for budget in report.budgets]
    rows = [search_cells(report, name) for name in report.mean_of_medians]
    grids, seeds = counted(len(report.problems), "grid"), counted(report.seeds, "seed")
    settings = counted(sum(problem.settings for problem in report.problems.values()), "setting")
    about = measured_on({**report.model_dump(), "commits": report.grids_commit.split(", ")})
    return f"{markdown(head, rows)}\n\n{grids} with {settings} in all, {seeds}; the grids: {about}"


def search_cells(report: SearchReport, name: str) -> list[str]:
    budgets = [str(budget) for budget in report.budgets]
    shares = [f"{report.mean_of_medians[name][budget]:.4f}" for budget in budgets]
    versus = report.default_against.get(name)
    if versus is None:
        return [name, *shares, *(DASH for _ in budgets)]
    return [name, *shares, *(f"{versus[b].better}/{versus[b].equal}/{versus[b].worse}" for b in budgets)]


def variants_table(path: Path) -> str:
    """A problem a row and a variant a column, and below them what the file's summary says of each variant."""
    if not path.exists():
        return NOT_MEASURED
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    summary, runs = content["summary"], {(row["problem"], row["variant"]): row for row in content["rows"]}
    if not runs:
        return NOT_MEASURED
    rows = [
        [problem, *(run_cell(runs.get((problem, variant))) for variant in summary)]
        for problem in sorted({row["problem"] for row in content["rows"]})
    ]
    compared = counted(next(iter(summary.values()))["compared"], "problem")
    rows.append(
        [f"geometric mean over {compared}", *(number(each["geometric_mean_speedup"]) for each in summary.values())]
    )
    rows.append(["wrongly accepted", *(audit_cell(content["rows"], name, each) for name, each in summary.items())])
    about = measured_on({**content, "commits": commits_of(content["rows"])})
    budget = counted(content["budget"], "evaluation")
    return f"{markdown(['problem', *summary], rows)}\n\nBudget {budget}; {about}"


def run_cell(row: dict[str, Any] | None) -> str:
    """What came of a run; a dash where there was none."""
    if row is None:
        return DASH
    if row["status"] == "passed":
        return f"{row['speedup']:.2f} {row['verdict']}"
    if row["status"] in ("nothing", "estimated"):
        return str(row["status"])
    return "problem refused" if row["status"] == "InvalidProblem" else "machine failed"


def audit_cell(rows: Sequence[dict[str, Any]], variant: str, summary: dict[str, Any]) -> str:
    """Of how many audited kernels; a dash where nothing is handed out by a first verdict, so that none was audited."""
    audited = sum(row["variant"] == variant and row["claimed"] is not None for row in rows)
    return f"{summary['wrongly_accepted']} of {audited}" if audited else DASH


def commits_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted({row["commit"] for row in rows} - {""})


LIBRARY_HEAD = ["problem", "speedup without", "speedup with", "best at without", "best at with", "status"]


def library_table(path: Path) -> str:
    """A problem a row: a search without the library and with it."""
    if not path.exists():
        return NOT_MEASURED
    found = LibraryResults.model_validate_json(path.read_text(encoding="utf-8"))
    if not found.rows or found.summary is None:
        return NOT_MEASURED
    table = markdown(LIBRARY_HEAD, [library_cells(row) for row in found.rows])
    content = found.model_dump()
    about = measured_on({**content, "commits": commits_of(content["rows"])})
    budget = counted(found.budget, "evaluation")
    return f"{table}\n\nBudget {budget}; {library_line(found.summary)}.\n{about}"


def library_cells(row: LibraryRow) -> list[str]:
    speedups = [f"{each:.2f}" if each is not None else DASH for each in (row.speedup_without, row.speedup_with)]
    found_at = [str(each) if each is not None else DASH for each in (row.best_at_without, row.best_at_with)]
    return [row.problem, *speedups, *found_at, row.status]


def library_line(summary: Summary) -> str:
    """The summary in words; means only where something was timed."""
    statuses = ", ".join(f"{count} {status}" for status, count in summary.statuses.items())
    parts = [f"{counted(summary.problems, 'problem')}: {statuses}"]
    without, with_library = summary.geometric_mean_speedup_without, summary.geometric_mean_speedup_with
    if without is not None and with_library is not None:
        parts.append(f"geometric mean speedup {without:.2f} without, {with_library:.2f} with")
    without, with_library = summary.mean_best_at_without, summary.mean_best_at_with
    if without is not None and with_library is not None:
        parts.append(f"best at evaluation {without:.2f} without, {with_library:.2f} with, on average")
    first = f"the first evaluation came up to the best without on {summary.level_at_first_evaluation}"
    return "; ".join([*parts, f"the best came from the library on {summary.best_from_library}", first])


DIAGNOSIS_HEAD = ["kernel", "built to be", "named", "evidence"]


def diagnosis_table(path: Path) -> str:
    """What the rules of now say of the recorded counters. The kernels lie beside the recording."""
    if not path.exists():
        return NOT_MEASURED
    recording, kernels = load(path), collect(root=path.parent)
    rows = [diagnosis_cells(kernel, recording) for kernel in kernels]
    right = sum(built == named for _, built, named, _ in rows)
    about = f"{right} of {len(rows)} named as built; counters: {measured_on(recording.model_dump())}"
    return f"{markdown(DIAGNOSIS_HEAD, rows, words=len(DIAGNOSIS_HEAD))}\n\n{about}"


def diagnosis_cells(kernel: KnownKernel, recording: Recording) -> list[str]:
    """A recording of other code than the kernel's says nothing of it, and is as none."""
    built = kernel.expect.replace("_", " ")
    recorded = recording.of(kernel.name)
    if recorded is None or not usable(recorded, kernel):
        return [kernel.name, built, "not recorded", DASH]
    findings = recorded.diagnosed(recording.device).findings
    if not findings:
        return [kernel.name, built, "nothing", DASH]
    return [kernel.name, built, findings[0].bottleneck.replace("_", " "), findings[0].evidence]
