"""Runs the suite and writes its result file after every problem.

    python -m warpsmith.evals.run_suite --out docs/results/suite-h200.json --baselines docs/results/baselines-h200.json

Rows of problems that are run replace the old ones, the others stay. With `--resume` only those are run that have no
row yet, whose file changed, or that failed for the machine's fault. For several GPUs start one process each, with
`--shard 0/2 --gpu 0` and `--shard 1/2 --gpu 1`: they may write the same file.

Exit status: 0 if every problem that was run passed (in a dry run: has an estimate), 1 if not, 2 for bad input, 130 if
interrupted.
"""

import argparse
import shutil
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from ..graph.bench import Bench
from ..state.base import Record, digest
from ..state.channels import Context
from ..state.errors import InfraError, InvalidInput, InvalidProblem
from ..state.trajectory import Result
from ..state.wording import estimated
from . import provenance
from .bench_command import BenchCommand, bench_settings, say
from .suite import SuiteProblem, select
from .suite_report import SuiteReport, SuiteRow, load, row_of, save
from .suite_tables import suite_lines

Optimize = Callable[[Path], Result]
COMMAND = BenchCommand(name="run_suite", description="Runs the problem suite.", topic="suite", resumes=True)


class SuiteRun(Record):
    """What to run and where the results go."""

    problems: tuple[SuiteProblem, ...]
    out: Path
    commit: str = ""
    command: str = ""
    resume: bool = False
    settings: dict[str, object] = {}
    """Search settings: rows of one file are only comparable under the same ones."""
    winners: Path | None = None
    """Folder that each winning kernel is copied to, as `<problem>.py`."""


def source_id(problem: SuiteProblem) -> str:
    return digest(problem.path.read_text())[:16]


def failed_row(problem: SuiteProblem, status: str, message: str, commit: str) -> SuiteRow:
    return SuiteRow(
        name=problem.name,
        family=problem.family,
        dtype=problem.dtype,
        status=status,
        message=message,
        source_id=source_id(problem),
        commit=commit,
    )


def run_one(problem: SuiteProblem, optimize: Optimize, commit: str) -> tuple[SuiteRow, Result | None]:
    """One problem's row, whatever happens: a failure of one must not cost the others."""
    try:
        result = optimize(problem.path)
    except InvalidProblem as error:
        return failed_row(problem, "invalid_problem", str(error), commit), None
    except InfraError as error:
        return failed_row(problem, "infra_error", str(error), commit), None
    except InvalidInput:
        raise
    except Exception as error:  # noqa: BLE001 - a defect met on one problem is that problem's row, with its trace
        traceback.print_exc()
        return failed_row(problem, "crashed", f"{type(error).__name__}: {error}", commit), None
    if not result.complete:
        raise KeyboardInterrupt
    return row_of(problem, result, source_id(problem), commit), result


def pending(run: SuiteRun) -> list[SuiteProblem]:
    """The problems to run. Raises InvalidInput where a resumed file was written under other settings."""
    if not run.resume:
        return list(run.problems)
    report = load(run.out)
    if report.rows and report.settings != run.settings:
        raise InvalidInput(f"{run.out}: was written with settings {report.settings}; use these, or another --out")
    done = {row.name: row.source_id for row in report.rows if row.done}
    return [problem for problem in run.problems if done.get(problem.name) != source_id(problem)]


def run_suite(run: SuiteRun, optimize: Optimize, say: Callable[[str], None]) -> list[SuiteRow]:
    """Runs what is pending, saving after each problem; returns the new rows."""
    todo = pending(run)
    if len(todo) < len(run.problems):
        say(f"{len(run.problems) - len(todo)} of {len(run.problems)} are done already")
    rows = []
    for number, problem in enumerate(todo, 1):
        row, result = run_one(problem, optimize, run.commit)
        rows.append(row)
        report = SuiteReport(rows=(row,), commit=run.commit, command=run.command, settings=run.settings)
        if result is not None and result.device is not None:
            device = result.device
            conditions = {"gpu": device.name, "versions": device.versions, "dry_run": result.dry_run}
        else:
            old = load(run.out)
            conditions = {"gpu": old.gpu, "versions": old.versions, "dry_run": old.dry_run}
        save(run.out, report.model_copy(update=conditions))
        if run.winners is not None and result is not None and result.best_path is not None:
            run.winners.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(result.best_path, run.winners / f"{problem.name}.py")
        say(f"[{number:>2}/{len(todo)}] {progress(row)}")
    return rows


def progress(row: SuiteRow) -> str:
    """One line on one problem."""
    times = f"{row.best_ms:.4g} ms against {row.best_baseline_ms:.4g}" if row.best_ms and row.best_baseline_ms else ""
    gain = f"{row.speedup:.2f}x" if row.speedup else ""
    if row.estimated_sol_fraction:
        gain = estimated(row.estimated_sol_fraction)
    cells = [f"{row.name:<26}", f"{row.status:<14}", row.verdict, gain, times, row.language, row.message]
    return " ".join(cell for cell in cells if cell.strip()) + f" ({row.candidates_tried} tried, {row.seconds:.1f} s)"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = COMMAND.parser()
    parser.add_argument("--budget", type=int, default=Context().budget, help="candidates to evaluate per problem")
    parser.add_argument("--seconds", type=float, default=600.0, help="wall time per problem")
    parser.add_argument("--languages", choices=("triton", "cuda", "both"), default="both")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--winners", type=Path, help="folder to copy each winning kernel to")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, arguments: list[str] | None) -> int:
    settings = {name: getattr(options, name) for name in ("budget", "seconds", "languages", "seed")}
    asked = SuiteRun(
        problems=select(options.problems, options.shard),
        out=options.out,
        commit=provenance.commit(options.commit),
        command=provenance.command(COMMAND.module, arguments),
        resume=options.resume,
        settings=settings,
        winners=options.winners,
    )
    following = dict(pairwise(problem.path for problem in pending(asked)))
    with closing(Bench(**settings, **bench_settings(options))) as bench:

        def optimize(path: Path) -> Result:
            bench.read_ahead(following.get(path))
            return bench.optimize(path)

        rows = run_suite(asked, optimize, say)
    say("\n" + "\n".join(suite_lines(load(options.out))))
    return 0 if all(row.status in ("passed", "unverified") for row in rows) else 1


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    return COMMAND.exit_status(options.out, lambda: run(options, arguments))


if __name__ == "__main__":
    sys.exit(main())
