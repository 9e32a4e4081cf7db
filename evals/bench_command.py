"""Commands that run problems on a bench: the options, the loop and the exit statuses that they have in common."""

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..state.errors import WarpsmithError

Case = TypeVar("Case")
Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class BenchCommand:
    """A command, and what it does by default."""

    name: str
    """The module that holds it."""
    description: str
    topic: str
    """Names the result file and the folder of run directories."""
    problems: str = ""
    """Comma-separated names; all for none."""
    resumes: bool = False
    """It repeats what is done already, unless `--resume` is given; the others never do."""

    @property
    def module(self) -> str:
        return f"warpsmith.evals.{self.name}"

    def parser(self) -> argparse.ArgumentParser:
        """A parser with the common options, to which a command adds its own."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.description)
        out, runs = Path(f"docs/results/{self.topic}.json"), Path("runs", self.topic)
        names = "comma-separated names" + ("" if self.problems else "; all by default")
        parser.add_argument("--out", type=Path, default=out, help="result file, merged into")
        parser.add_argument("--baselines", type=Path, help="file of cached baseline times, read and added to")
        parser.add_argument("--problems", default=self.problems, help=names)
        parser.add_argument("--shard", default="0/1", help="i/n: every n-th problem from i")
        parser.add_argument("--gpu", type=int, default=0, help="index of the GPU to measure on")
        parser.add_argument("--runs", type=Path, default=runs, help="folder for the run directories")
        if self.resumes:
            parser.add_argument("--resume", action="store_true", help="run only what is not done yet")
        parser.add_argument("--dry-run", action="store_true", help="never use a GPU")
        parser.add_argument("--require-gpu", action="store_true", help="fail where there is no GPU")
        parser.add_argument("--commit", default="", help="commit to state; by default WARPSMITH_COMMIT or git's")
        return parser

    def exit_status(self, out: Path, run: Callable[[], int]) -> int:
        """What `run` comes to, or 2 for bad input and 130 if interrupted, with one line for a person."""
        try:
            return run()
        except WarpsmithError as error:
            say(f"{self.name}: {error}")
            return 2
        except KeyboardInterrupt:
            goes_on = ", and --resume goes on" if self.resumes else ""
            say(f"{self.name}: interrupted; what is done is in {out}{goes_on}")
            return 130


def bench_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of a bench among the common options."""
    return {
        "gpu": options.gpu,
        "out": str(options.runs / f"gpu{options.gpu}"),  # Two processes must not share a harness's scratch folder.
        "baselines": str(options.baselines) if options.baselines else None,
        "dry_run": True if options.dry_run else None,
        "require_gpu": options.require_gpu,
    }


def kept_rows(
    cases: Iterable[Case], measure: Callable[[Case], Row], keep: Callable[[Row], None], line: Callable[[Row], str]
) -> list[Row]:
    """Every case's row, kept and told as soon as it is there: an interruption costs one case."""
    rows = []
    for case in cases:
        row = measure(case)
        keep(row)
        rows.append(row)
        say(line(row))
    return rows


def say(text: str) -> None:
    """A line for a person: output that is not the result goes to stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
