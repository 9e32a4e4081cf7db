"""Tables of problems: the suite, its scores, and the runs with a model's answers."""

import json
from pathlib import Path

from ..state.wording import counted
from .suite_report import SuiteReport, SuiteRow, load, summary
from .table_text import NOT_MEASURED, markdown, measured_on, number


def suite_cells(row: SuiteRow) -> list[str]:
    gain = f"{row.speedup:.2f}" if row.speedup is not None else "–"
    best = [number(row.eager_ms), number(row.compile_ms), number(row.best_baseline_ms), number(row.best_triton_ms)]
    shares = [f"{share:.2f}" if share is not None else "–" for share in (row.sol_fraction, row.custom_share)]
    outcome = row.verdict or row.status.replace("_", " ")
    return [row.name, row.family, row.dtype, *best, number(row.best_cuda_ms), gain, *shares, outcome]


SUITE_HEAD = [
    *("problem", "family", "dtype", "eager ms", "compile ms", "best baseline ms", "best Triton ms", "best CUDA ms"),
    *("speedup", "speed of light", "own share", "outcome"),
]


AGAINST = {
    "the best baseline": "",
    "the best baseline, main workload alone": "_on_main",
    "eager": "_over_eager",
    "torch.compile": "_over_compile",
}
"""Columns of scores, by what they are against."""


def suite_lines(report: SuiteReport) -> list[str]:
    """The scores in plain text, for the end of a run."""
    scores = summary(report.rows)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in scores["verdicts"].items())
    passed, whole, ran = scores["problems_passed"], scores["problems_in_suite"], scores["problems_run"]
    fast = "  ".join(f"fast_{p} {scores[f'fast_{p}']:.2f}" for p in (0, 1, 2))
    return [
        f"{passed} of {counted(whole, 'problem')} passed ({ran} run): {verdicts}",
        f"{fast} against the best baseline, fast_1 {scores['fast_1_on_main']:.2f} on the main workload alone",
        f"fast_1 {scores['fast_1_over_eager']:.2f} against eager, {scores['fast_1_over_compile']:.2f} against compile",
        f"geometric mean speedup {scores['geomean_speedup']:.2f} ({scores['geomean_speedup_on_main']:.2f} on the main "
        f"workload alone), median speed-of-light fraction {number(scores['median_sol_fraction'], 2)}, "
        f"{scores['seconds_per_problem']} s a problem",
    ]


def suite_table(path: Path) -> str:
    report = load(path)
    if not report.rows:
        return NOT_MEASURED
    rows = sorted(report.rows, key=lambda row: (row.family, row.dtype, row.name))
    return markdown(SUITE_HEAD, [suite_cells(row) for row in rows])


def summary_table(path: Path) -> str:
    report = load(path)
    if not report.rows:
        return NOT_MEASURED
    scores = summary(report.rows)
    rows = [
        ["against " + name, *(f"{scores[f'fast_{p}{suffix}']:.2f}" for p in (0, 1, 2))]
        for name, suffix in AGAINST.items()
    ]
    passed, _, _, means = suite_lines(report)
    table = markdown(["", "fast_0", "fast_1", "fast_2"], rows)
    commits = sorted({row.commit for row in report.rows})
    return f"{table}\n\n{passed}; {means}.\n{measured_on({**report.model_dump(), 'commits': commits})}"


MODELS_HEAD = ["problem", "status of each answer", "tokens", "best baseline ms", "kernel ms", "speedup", "outcome"]


def models_table(path: Path) -> str:
    """Runs with written answers, a problem a row."""
    if not path.exists():
        return NOT_MEASURED
    content = json.loads(path.read_text())
    rows = [
        [
            row["problem"],
            ", ".join(answer["status"].replace("_", " ") for answer in row["answers"]),
            str(sum(row["tokens_by_role"].values())),
            number(row["baseline_ms"]),
            number(row["best_ms"]),
            number(row["speedup"]),
            row["verdict"],
        ]
        for row in content["problems"]
    ]
    commits = sorted({row["commit"] for row in content["problems"]})
    return f"{markdown(MODELS_HEAD, rows)}\n\n{measured_on({**content, 'commits': commits})}"
