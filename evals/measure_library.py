"""What the library across runs is worth: a short search on a problem that it has not seen, without it and with it.

    python -m warpsmith.evals.measure_library --require-gpu --out docs/results/library-h200.json

For each problem of the suite a first run at `--seed-budget` fills a fresh library. Then the same reference with other
sizes (`derived_problems`) is optimised at `--budget` without the library and with it. The runs share a harness, which
answers a repeated question from memory: the two differ in what they tried and not by noise. Rows that are in the file
already are skipped; several processes may write one file (`--shard 0/2 --gpu 0`, ...). Without a GPU nothing is
verified, so the library stays empty; a dry run says so in each row and compares nothing.

Exit status: 0 if every problem was measured or rightly left out, 1 if a machine failed, 2 for bad input, 130 if
interrupted.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..graph.api import optimize
from ..graph.bench import Bench
from ..graph.services import Collaborators
from ..state.errors import InfraError, InvalidProblem
from ..state.trajectory import Result
from . import provenance
from .bench_command import BenchCommand, bench_settings, kept_rows, say
from .derived_problems import derived_source
from .library_rows import COMPARED, LibraryResults, LibraryRow, add_row, best_at, load, row_of
from .suite import SuiteProblem, select

PROBLEMS = (
    "bias_gelu_tanh,swiglu_packed,rotary_halves,channel_affine_hardswish,layer_scale_residual,dequantise_groups,"
    "group_norm_silu,log_softmax_vocabulary,masked_mean_pool,rms_norm_residual,row_max_argmax,logsumexp_penalty,"
    "decode_projection,linear_gelu,weight_gradient,pairwise_distances,attention_scores,gated_projection"
)
"""Six of every family."""
COMMAND = BenchCommand(
    name="measure_library",
    description="Library's worth; a dry run compares nothing.",
    topic="library",
    problems=PROBLEMS,
)
DONE = (*COMPARED, "refused")
"""Rows that are not measured again."""
Optimise = Callable[[Path, int, Path | None], Result]
"""Problem file, evaluations, library."""


def measured(problem: SuiteProblem, optimise: Optimise, seed_budget: int, budget: int) -> LibraryRow:
    """One problem's row, whatever happens."""
    row = LibraryRow(problem=problem.name, status="empty")
    with TemporaryDirectory(prefix="warpsmith-library-") as folder:
        library = Path(folder) / "library.sqlite"
        resized = Path(folder) / f"{problem.name}_resized.py"
        try:
            source = problem.path.read_text(encoding="utf-8")
            resized.write_text(derived_source(source, problem.path), encoding="utf-8")
            first = optimise(problem.path, seed_budget, library)
            row = row.model_copy(update={"speedup_of_first": first.speedup})
            without = optimise(resized, budget, None)
            if library.is_file():
                return row_of(row, without, optimise(resized, budget, library))
            return _nothing_to_offer(row, first, without)
        except (InvalidProblem, InfraError) as error:
            status = "refused" if isinstance(error, InvalidProblem) else "failed"
            return row.model_copy(update={"status": status, "message": str(error).replace(f"{folder}/", "")})


def _nothing_to_offer(row: LibraryRow, first: Result, without: Result) -> LibraryRow:
    """There is nothing to compare: a run with an empty library is a run without."""
    why = {
        "estimated": "a dry run times nothing and so verifies nothing",
        "nothing": "the first run had no kernel",
        "verified": "the kernel leaves operators to PyTorch, and such are not kept",
    }
    found = {
        "speedup_without": without.speedup,
        "verdict_without": without.verdict,
        "best_at_without": best_at(without) if without.speedup else None,
        "tried_without": without.tried,
    }
    return row.model_copy(update={**found, "message": f"the library stayed empty: {why[first.outcome]}"})


def optimiser(bench: Bench, settings: dict[str, Any]) -> Optimise:
    """Optimises with these settings on the bench's harness, which is opened again after it broke."""

    def optimise(path: Path, budget: int, library: Path | None) -> Result:
        own = {**settings, "budget": budget, "library": str(library) if library else None}
        try:
            return optimize(path, given=Collaborators(harness=bench.harness), **own)
        except InfraError:
            bench.close()
            raise

    return optimise


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = COMMAND.parser()
    parser.add_argument("--budget", type=int, default=6, help="evaluations of each run that is compared")
    parser.add_argument("--seed-budget", type=int, default=18, help="evaluations of the run that fills the library")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, arguments: list[str] | None) -> int:
    settings = bench_settings(options)
    problems = select(options.problems, options.shard)
    with closing(Bench(**settings)) as bench:
        device = bench.harness.device()
        about = LibraryResults(
            budget=options.budget,
            seed_budget=options.seed_budget,
            gpu=device.name,
            dry_run=device.simulated,
            versions=device.versions,
            commit=provenance.commit(options.commit),
            command=provenance.command(COMMAND.module, arguments),
        )
        done = {row.problem for row in load(options.out, about).rows if row.status in DONE}

        pending = [problem for problem in problems if problem.name not in done]
        following = dict(pairwise(problem.path for problem in pending))

        def measure(problem: SuiteProblem) -> LibraryRow:
            bench.read_ahead(following.get(problem.path))
            row = measured(problem, optimiser(bench, settings), options.seed_budget, options.budget)
            return row.model_copy(update={"commit": about.commit})

        rows = kept_rows(pending, measure, lambda row: add_row(options.out, row, about), line)
    if about.dry_run:
        say("measure_library: a dry run verifies nothing, so no library was filled and nothing is compared")
    return 1 if any(row.status == "failed" for row in rows) else 0


def line(row: LibraryRow) -> str:
    """A row for a person."""
    without, with_library = (f"{each:.3f}x" if each else "-" for each in (row.speedup_without, row.speedup_with))
    at = f"best at {row.best_at_without or '-'} without, {row.best_at_with or '-'} with"
    told = f"{without} without, {with_library} with, {row.offered} offered, {at}"
    return f"{row.problem:<26} {row.status:<8} {row.message or told}"


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    return COMMAND.exit_status(options.out, lambda: run(options, arguments))


if __name__ == "__main__":
    sys.exit(main())
