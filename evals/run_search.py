"""What each part of the controller adds: a few problems under several variants at one budget, on a GPU.

    python -m warpsmith.evals.run_search --require-gpu --out docs/results/search-h200.json

Variants are the default, other strategies, and the stages. Below stage `hardened` a run hands out its best by the first
verdict, and an audit by the full judge says whether that was wrong. Last verdicts and audits are the judge's own: what
programs outside find (sanitizers, profiler) tells no variant from another here, and takes a quarter of the time. The
runs of a problem share a harness, which answers a repeated question from memory, so that they differ in what they tried
and not by noise; some of them go at the same time, one's compilers beside another's timing, so that their seconds say
nothing and are left out. Runs that are in the file already are skipped; several processes may write one file
(`--shard 0/2 --gpu 0`, ...).

Exit status: 0 if every run ended without a failure of the machine, 1 if not, 2 for bad input, 130 if interrupted.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from statistics import mean
from typing import Any

from ..graph.api import optimize
from ..graph.bench import Bench
from ..graph.services import Collaborators
from ..state.base import Record
from ..state.channels import Context
from ..state.errors import InfraError, InvalidInput, InvalidProblem
from ..state.scores import geometric_mean
from ..state.trajectory import Result
from . import provenance
from .bench_command import BenchCommand, bench_settings, kept_rows
from .result_file import commands, locked, read_results, write_results
from .suite import SuiteProblem, select

VARIANTS: dict[str, dict[str, object]] = {
    "default": {},
    "chain": {"strategy": "chain"},
    "no feedback": {"strategy": "sample"},
    "stage one-shot": {"stage": "one-shot"},
    "stage correctness": {"stage": "correctness"},
    "stage profiler": {"stage": "profiler"},
    "stage search": {"stage": "search"},
}
"""Settings by name; the default is stage `hardened`. Stage `correctness` is execution feedback only."""
PROBLEMS = "decode_projection,group_norm_silu,masked_mean_pool,linear_gelu,log_softmax_vocabulary,bias_gelu_tanh"
"""Of every family; the first is a product with a few vectors."""
COMMAND = BenchCommand(name="run_search", description="Compares variants.", topic="search", problems=PROBLEMS)
DONE = ("passed", "nothing", "estimated")
"""Rows that are not run again."""
Search = Callable[[Path], Result]


class SearchRow(Record):
    """One run."""

    problem: str
    variant: str
    status: str
    """`passed`, `nothing`, or how the machine failed."""
    speedup: float | None = None
    verdict: str = ""
    tried: int = 0
    stop_reason: str = ""
    claimed: float | None = None
    """Below `hardened`: the speedup that the stage saw."""
    wrongly_accepted: bool = False
    message: str = ""
    commit: str = ""


class VariantSummary(Record):
    """A variant over its problems."""

    runs: int
    passed: int
    wins: int
    wrongly_accepted: int
    compared: int = 0
    """Problems that every variant ran on to its end: those that the mean is over."""
    geometric_mean_speedup: float | None = None
    """Without a kernel the baseline stays: 1."""
    mean_tried: float


class SearchFile(Record):
    """The result file."""

    budget: int
    gpu: str = ""
    versions: dict[str, str] = {}
    commit: str = ""
    command: str = ""
    summary: dict[str, VariantSummary] = {}
    rows: tuple[SearchRow, ...] = ()


def row_of(problem: str, variant: str, result: Result, commit: str) -> SearchRow:
    audit = result.audit
    return SearchRow(
        problem=problem,
        variant=variant,
        status="passed" if result.outcome == "verified" else result.outcome,
        speedup=result.speedup,
        verdict=result.verdict,
        tried=result.tried,
        stop_reason=result.stop_reason,
        claimed=audit.claimed if audit else None,
        wrongly_accepted=audit is not None and audit.wrongly_accepted,
        message=audit.message if audit else "",
        commit=commit,
    )


def summarised(rows: Sequence[SearchRow]) -> dict[str, VariantSummary]:
    found = {}
    variants = dict.fromkeys(row.variant for row in rows)
    ended = {(row.problem, row.variant) for row in rows if row.status in DONE}
    common = {row.problem for row in rows if all((row.problem, variant) in ended for variant in variants)}
    for variant in variants:
        own = [row for row in rows if row.variant == variant]
        gains = [row.speedup or 1.0 for row in own if row.problem in common]
        found[variant] = VariantSummary(
            runs=len(own),
            passed=sum(row.status == "passed" for row in own),
            wins=sum(row.verdict == "win" for row in own),
            wrongly_accepted=sum(row.wrongly_accepted for row in own),
            compared=len(common),
            geometric_mean_speedup=round(geometric_mean(gains), 4) if gains else None,
            mean_tried=round(mean(row.tried for row in own), 1),
        )
    return found


def load(path: Path, budget: int) -> SearchFile:
    """The file, or an empty one. Raises InvalidInput where it is for another budget or cannot be read."""
    found = read_results(path, SearchFile) or SearchFile(budget=budget)
    if found.budget != budget:
        raise InvalidInput(f"{path}: was made with --budget {found.budget}; use that, or another --out")
    return found


def add_row(path: Path, row: SearchRow, about: SearchFile) -> None:
    """Adds a run under the folder's lock, in place of an older one of the same problem and variant."""
    with locked(path):
        old = load(path, about.budget)
        kept = [each for each in old.rows if (each.problem, each.variant) != (row.problem, row.variant)]
        order = {name: number for number, name in enumerate(VARIANTS)}
        rows = sorted([*kept, row], key=lambda each: (order.get(each.variant, 99), each.problem))
        told = commands(old.command, about.command)
        summary = summarised(rows)
        write_results(path, about.model_copy(update={"rows": tuple(rows), "summary": summary, "command": told}))


def run_variant(problem: SuiteProblem, variant: str, search: Search, commit: str) -> SearchRow:
    """One run's row, whatever happens."""
    try:
        return row_of(problem.name, variant, search(problem.path), commit)
    except (InvalidProblem, InfraError) as error:
        return SearchRow(
            problem=problem.name, variant=variant, status=type(error).__name__, message=str(error), commit=commit
        )


def runner(bench: Bench, settings: dict[str, Any]) -> Search:
    """Optimises with these settings on the bench's harness."""
    return lambda path: optimize(path, given=Collaborators(harness=bench.harness), **settings)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = COMMAND.parser()
    parser.add_argument("--variants", default=",".join(VARIANTS), help="comma-separated names")
    parser.add_argument("--budget", type=int, default=Context().budget, help="candidates to evaluate in each run")
    parser.add_argument("--threads", type=int, default=4, help="variants of a problem that run at the same time")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, arguments: list[str] | None) -> int:
    variants = [name.strip() for name in options.variants.split(",") if name.strip()]
    unknown = [name for name in variants if name not in VARIANTS]
    if unknown:
        raise InvalidInput(f"--variants: no {unknown[0]!r}; known: {', '.join(VARIANTS)}")
    problems = select(options.problems, options.shard)
    done = {(row.problem, row.variant) for row in load(options.out, options.budget).rows if row.status in DONE}
    pending = {each: [name for name in variants if (each.name, name) not in done] for each in problems}
    pending = {each: names for each, names in pending.items() if names}
    settings = {**bench_settings(options), "budget": options.budget}
    rows: list[SearchRow] = []
    # The bench closes first: what still runs after an interruption ends with it.
    with ThreadPoolExecutor(options.threads, "variant") as pool, closing(Bench(evidence_tiers=(), **settings)) as bench:
        device = bench.harness.device()
        about = SearchFile(
            budget=options.budget,
            gpu=device.name,
            versions=device.versions,
            commit=provenance.commit(options.commit),
            command=provenance.command(COMMAND.module, arguments),
        )
        following = [problem.path for problem in pending][1:]
        for problem, names in pending.items():
            bench.read_ahead(following.pop(0) if following else None)
            searches = {name: runner(bench, {**settings, **VARIANTS[name]}) for name in names}
            asked = [pool.submit(run_variant, problem, name, search, about.commit) for name, search in searches.items()]
            rows += kept_as_they_end(asked, lambda row: add_row(options.out, row, about))
    return 0 if all(row.status in DONE for row in rows) else 1


def kept_as_they_end(asked: Sequence[Future[SearchRow]], keep: Callable[[SearchRow], None]) -> list[SearchRow]:
    """The rows of runs that go at the same time; those that have not begun never do where something stops this."""
    try:
        return kept_rows(as_completed(asked), Future.result, keep, line)
    finally:
        for each in asked:
            each.cancel()


def line(row: SearchRow) -> str:
    """A row for a person."""
    shown = f"{row.speedup:.3f}x" if row.speedup else row.status
    return f"{row.problem:<24} {row.variant:<18} {shown} {row.verdict} ({row.tried} tried)"


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    return COMMAND.exit_status(options.out, lambda: run(options, arguments))


if __name__ == "__main__":
    sys.exit(main())
