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
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..graph.api import optimize
from ..graph.services import Collaborators
from ..state.errors import InfraError, InvalidInput, InvalidProblem, WarpsmithError
from ..state.trajectory import Result
from . import provenance
from .bench import Bench
from .derived_problems import derived_source
from .library_rows import COMPARED, LibraryResults, LibraryRow, add_row, best_at, load, row_of
from .run_search import say
from .suite import SuiteProblem, select

PROBLEMS = (
    "bias_gelu_tanh,swiglu_packed,rotary_halves,channel_affine_hardswish,layer_scale_residual,dequantise_groups,"
    "group_norm_silu,log_softmax_vocabulary,masked_mean_pool,rms_norm_residual,row_max_argmax,logsumexp_penalty,"
    "decode_projection,linear_gelu,weight_gradient,pairwise_distances,attention_scores,gated_projection"
)
"""Six of every family."""
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
    parser = argparse.ArgumentParser(prog="python -m warpsmith.evals.measure_library", description="Library's worth.")
    parser.add_argument("--out", type=Path, default=Path("docs/results/library.json"))
    parser.add_argument("--baselines", type=Path, help="file of cached baseline times, read and added to")
    parser.add_argument("--problems", default=PROBLEMS, help="comma-separated names of the suite")
    parser.add_argument("--budget", type=int, default=6, help="evaluations of each run that is compared")
    parser.add_argument("--seed-budget", type=int, default=18, help="evaluations of the run that fills the library")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th problem from i")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--runs", type=Path, default=Path("runs/library"))
    parser.add_argument("--dry-run", action="store_true", help="never use a GPU: compares nothing")
    parser.add_argument("--require-gpu", action="store_true")
    parser.add_argument("--commit", default="")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, arguments: list[str] | None) -> int:
    if options.dry_run and options.require_gpu:
        raise InvalidInput("--dry-run and --require-gpu exclude each other; give one of them")
    settings: dict[str, Any] = {
        "gpu": options.gpu,
        "out": str(options.runs / f"gpu{options.gpu}"),
        "baselines": str(options.baselines) if options.baselines else None,
        "dry_run": True if options.dry_run else None,
        "require_gpu": options.require_gpu,
    }
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
            command=provenance.command("warpsmith.evals.measure_library", arguments),
        )
        done = {row.problem for row in load(options.out, about).rows if row.status in DONE}
        rows = []
        for problem in problems:
            if problem.name not in done:
                row = measured(problem, optimiser(bench, settings), options.seed_budget, options.budget)
                rows.append(row.model_copy(update={"commit": about.commit}))
                add_row(options.out, rows[-1], about)
                say(line(row))
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
    try:
        return run(options, arguments)
    except WarpsmithError as error:
        say(f"measure_library: {error}")
        return 2
    except KeyboardInterrupt:
        say(f"measure_library: interrupted; what is done is in {options.out}")
        return 130


if __name__ == "__main__":
    sys.exit(main())
