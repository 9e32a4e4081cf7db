"""Merges suite results that were measured apart (shards, machines, sittings) into one file.

    python -m warpsmith.evals.merge_results docs/results/suite-h200.json part0.json part1.json

The first file is written; where it exists, its rows stay unless a later file has them too. The last file that has a
problem wins.
"""

import argparse
import sys
from pathlib import Path

from ..state.errors import InvalidInput
from .run_suite import say
from .suite_report import load, save
from .tables import suite_lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m warpsmith.evals.merge_results", description="Merges suite results."
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("parts", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    try:
        for part in options.parts:
            if not part.exists():
                raise InvalidInput(f"{part}: no such file")
            save(options.out, load(part))
    except InvalidInput as error:
        say(f"merge_results: {error}")
        return 2
    say("\n".join(suite_lines(load(options.out))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
