"""The README's tables, generated from `docs/results/*.json` between markers.

    python -m warpsmith.evals.tables            rewrites README.md
    python -m warpsmith.evals.tables --check    exit status 1 if README.md is not what the results say

A table stands between `<!-- table:NAME -->` and `<!-- /table -->`; NAME is `suite`, `summary` or `harness`.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..state.errors import InvalidInput
from ..state.wording import counted
from .suite_report import SuiteReport, SuiteRow, load, summary

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
SUITE_FILE, HARNESS_FILE = "suite-h200.json", "harness-h200.json"
MARKED = re.compile(r"(<!-- table:(?P<name>\w+) -->\n).*?(<!-- /table -->)", re.DOTALL)
NOT_MEASURED = "Not measured yet."


def number(value: float | None, digits: int = 3) -> str:
    """At least `digits` significant digits, never in scientific notation; a dash for None."""
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    text = f"{value:.{digits}g}"
    return f"{value:.6f}".rstrip("0") if "e" in text else text


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


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


def suite_lines(report: SuiteReport) -> list[str]:
    """The scores in plain text, for the end of a run."""
    scores = summary(report.rows)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in scores["verdicts"].items())
    passed, whole, ran = scores["problems_passed"], scores["problems_in_suite"], scores["problems_run"]
    fast = "  ".join(f"fast_{p} {scores[f'fast_{p}']:.2f}" for p in (0, 1, 2))
    return [
        f"{passed} of {counted(whole, 'problem')} passed ({ran} run): {verdicts}",
        f"{fast} against the best baseline",
        f"fast_1 {scores['fast_1_over_eager']:.2f} against eager, {scores['fast_1_over_compile']:.2f} against compile",
        f"geometric mean speedup {scores['geomean_speedup']:.2f}, median speed-of-light fraction "
        f"{number(scores['median_sol_fraction'], 2)}, {scores['seconds_per_problem']} s a problem",
    ]


def measured_on(content: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(content.get("versions", {}).items()))
    return f"{content.get('gpu', 'unknown GPU')}; {versions}; {_commits(content)}."


def _commits(content: dict[str, Any]) -> str:
    """Every commit that some row was measured at: a file may hold rows of several runs."""
    found = content.get("commits") or [content.get("commit", "unknown")]
    return f"commit{'s' if len(found) > 1 else ''} {', '.join(str(each)[:12] for each in found)}"


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
        for name, suffix in (("the best baseline", ""), ("eager", "_over_eager"), ("torch.compile", "_over_compile"))
    ]
    passed, _, _, means = suite_lines(report)
    table = markdown(["", "fast_0", "fast_1", "fast_2"], rows)
    return f"{table}\n\n{passed}; {means}.\n{measured_on(report.model_dump())}"


def harness_table(path: Path) -> str:
    """Every number of the file, nested ones with dotted names."""
    if not path.exists():
        return NOT_MEASURED
    content: dict[str, Any] = json.loads(path.read_text())
    rows = [[name, number(value)] for name, value in flat(content, "") if not name.startswith("versions")]
    return f"{markdown(['measure', 'value'], rows)}\n\n{measured_on(content)}"


def museum_table(path: Path) -> str:
    """What the museum's hostile candidates and honest controls got, and how often."""
    if not path.exists():
        return NOT_MEASURED
    content: dict[str, Any] = json.loads(path.read_text())
    rows = [
        ["hostile candidates rejected", f"{content['exploits_rejected']} of {content['exploits_total']}"],
        ["honest controls accepted", f"{content['honest_accepted']} of {content['honest_total']}"],
        ["families of exploits", str(len(content["families"]))],
        ["verdicts on each", str(content["repeat"])],
        ["with different verdicts", ", ".join(content["flipped"]) or "none"],
        ["not rejected every time", ", ".join(content["missed"]) or "none"],
    ]
    commits = sorted({verdict.get("commit", "") for row in content["rows"] for verdict in row["verdicts"]} - {""})
    about = measured_on({**content, "commits": commits})
    return f"{markdown(['tier ' + content['tier'], ''], rows)}\n\n{about}"


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


def flat(content: dict[str, Any], prefix: str) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in content.items():
        if isinstance(value, dict):
            found += flat(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found.append((prefix + name, float(value)))
    return found


TABLES: dict[str, tuple[Callable[[Path], str], str]] = {
    "suite": (suite_table, SUITE_FILE),
    "summary": (summary_table, SUITE_FILE),
    "harness": (harness_table, HARNESS_FILE),
    "museum": (museum_table, "exploits-h200.json"),
    "models": (models_table, "llm-h200.json"),
}


def filled(text: str, results: Path = RESULTS) -> str:
    """The text with every table as the results say. Raises InvalidInput for a table of an unknown name."""

    def table(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise InvalidInput(f"no table {name!r}; known: {', '.join(TABLES)}")
        make, file = TABLES[name]
        return f"{match[1]}{make(results / file)}\n{match[3]}"

    return MARKED.sub(table, text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m warpsmith.evals.tables", description="Fills the README's tables.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if something would change")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    old = options.readme.read_text()
    new = filled(old, options.results)
    if options.check:
        if new != old:
            sys.stderr.write(f"{options.readme}: tables differ from {options.results}: run `make tables`\n")
        return int(new != old)
    options.readme.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
