"""The README's tables, generated from `docs/results/*.json` between markers.

    python -m warpsmith.evals.tables            rewrites README.md
    python -m warpsmith.evals.tables --check    exit status 1 if README.md is not what the results say

A table stands between `<!-- table:NAME -->` and `<!-- /table -->`; NAME is one of those in `TABLES`.
"""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from ..state.errors import InvalidInput
from .diagnosis_set import COUNTERS
from .judge_tables import endurance_table, harness_table, museum_table
from .search_tables import diagnosis_table, library_table, search_table, variants_table
from .suite_tables import models_table, suite_table, summary_table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
SUITE_FILE, WIDER_FILE = "suite-h200.json", "wider-h200.json"
MARKED = re.compile(r"(<!-- table:(?P<name>\w+) -->\n).*?(<!-- /table -->)", re.DOTALL)

TABLES: dict[str, tuple[Callable[[Path], str], str | Path]] = {
    "suite": (suite_table, SUITE_FILE),
    "summary": (summary_table, SUITE_FILE),
    "wider": (suite_table, WIDER_FILE),
    "wider_summary": (summary_table, WIDER_FILE),
    "harness": (harness_table, "harness-h200.json"),
    "museum": (museum_table, "exploits-h200.json"),
    "endurance": (endurance_table, "endurance-h200.json"),
    "models": (models_table, "llm-h200.json"),
    "search": (search_table, "search-replay.json"),
    "variants": (variants_table, "search-h200.json"),
    "library": (library_table, "library-h200.json"),
    "diagnosis": (diagnosis_table, COUNTERS.resolve()),
}
"""What makes each table, and from which file of the folder of results; an absolute path lies elsewhere."""


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
