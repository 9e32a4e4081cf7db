"""Merges results that were measured apart (shards, machines, sittings) into one file.

    python -m warpsmith.evals.merge_results docs/results/suite-h200.json part0.json part1.json
    python -m warpsmith.evals.merge_results docs/results/baselines-h200.json baselines0.json baselines1.json

The first file is written; what it holds stays unless a later file has it too. The last file that has a problem wins.
Suite reports and baselines files are told apart by their content.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..state.errors import InvalidInput
from ..state.timing import Baselines
from ..state.wording import counted
from ..tools.whole_file import write_whole
from .bench_command import say
from .suite_report import load, save
from .suite_tables import suite_lines


def read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InvalidInput(f"{path}: is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise InvalidInput(f"{path}: is neither a suite report nor a baselines file")
    return content


def merge_suites(out: Path, parts: list[Path]) -> list[str]:
    for part in parts:
        save(out, load(part))
    return suite_lines(load(out))


def merge_baselines(out: Path, parts: list[Path]) -> list[str]:
    """A baselines file is an object of records by key, so the union is the merge."""
    known: dict[str, Baselines] = {}
    for part in [out, *parts] if out.exists() else parts:
        try:
            known |= {key: Baselines.model_validate(value) for key, value in read(part).items()}
        except ValidationError as error:
            raise InvalidInput(f"{part}: is neither a suite report nor a baselines file") from error
    content = {key: known[key].model_dump(mode="json") for key in sorted(known)}
    write_whole(out, json.dumps(content, indent=1) + "\n")
    return [f"{counted(len(known), 'problem')} in {out}"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m warpsmith.evals.merge_results", description="Merges result files.")
    parser.add_argument("out", type=Path)
    parser.add_argument("parts", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    try:
        of_suites = ["problems" in read(part) for part in options.parts]
        if len(set(of_suites)) > 1:
            raise InvalidInput("suite reports and baselines files do not merge into one")
        merge = merge_suites if of_suites[0] else merge_baselines
        say("\n".join(merge(options.out, options.parts)))
    except InvalidInput as error:
        say(f"merge_results: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
