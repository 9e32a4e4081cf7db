"""Compares search strategies on recorded grids: with random search and Optuna's TPE, at equal budgets, many seeds each.

    python -m warpsmith.evals.compare_strategies --out docs/results/search-replay.json

What is compared is how near to the grid's best a search has come after so many evaluations. Needs no GPU; TPE needs the
package optuna.

Exit status: 0 if the default beats both on most problems at every budget, 1 if not, 2 for bad input.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median, quantiles

from ..graph.search import STRATEGIES
from ..state.base import Record
from ..state.channels import Context
from ..state.errors import InvalidInput, WarpsmithError
from ..state.wording import counted
from ..tools.whole_file import write_whole
from . import provenance
from .replay_grid import GRID_DIR, Grid, load_grids
from .replay_search import Curve, searches
from .search_plot import plot_svg

BUDGETS = (20, 50)
SEEDS = 20
OPPONENTS = ("random", "tpe")
BUDGET_FREE = OPPONENTS
"""Searches whose course does not depend on the budget: one run serves all budgets."""
EQUAL = 0.001
"""Medians that differ by no more than this share of the best are equal."""


class Spread(Record):
    """Share of the grid's best reached, over the seeds."""

    median: float
    low: float
    """Lower quartile."""
    high: float
    """Upper quartile."""


class ProblemSearch(Record):
    """One grid's searches: by search, then by budget."""

    settings: int
    failed: int
    best_ms: float
    first_ms: float | None
    """Time of what the writer proposes first."""
    reached: dict[str, dict[str, Spread]]
    evaluations_to_99: dict[str, float | None]
    """Median number of evaluations to 99% of the best; None where most seeds did not get there."""
    curves: dict[str, list[float]]
    """Median share after each evaluation, at the greatest budget."""


class Comparison(Record):
    """How often the default's median is better, equal or worse."""

    better: int
    equal: int
    worse: int


class SearchReport(Record):
    """What the result file holds."""

    default: str
    budgets: tuple[int, ...]
    seeds: int
    mean_of_medians: dict[str, dict[str, float]]
    """Over the problems: by search, then by budget."""
    default_against: dict[str, dict[str, Comparison]]
    """By opponent, then by budget."""
    problems: dict[str, ProblemSearch]
    gpu: str
    versions: dict[str, str]
    grids_commit: str
    commit: str
    command: str

    @property
    def default_wins(self) -> bool:
        """Whether the default beats every opponent on more than half of the problems at every budget."""
        found = [self.default_against[o][str(b)] for o in OPPONENTS if o in self.default_against for b in self.budgets]
        return all(2 * each.better > each.better + each.equal + each.worse for each in found)


def search_problem(grid: Grid, names: Sequence[str], budgets: Sequence[int], seeds: int) -> ProblemSearch:
    reached: dict[str, dict[str, Spread]] = {}
    curves: dict[str, list[float]] = {}
    to_99: dict[str, float | None] = {}
    first = 0.0
    for name, run in searches(grid, names):
        longest = [run(max(budgets), seed) for seed in range(seeds)]
        reached[name] = {}
        for budget in budgets:
            own = longest if name in BUDGET_FREE or budget == max(budgets) else [run(budget, s) for s in range(seeds)]
            reached[name][str(budget)] = spread_of([curve[budget - 1] for curve in own])
        curves[name] = medians(longest)
        to_99[name] = steps_to(0.99, longest)
        if name == Context().strategy:
            first = longest[0][0]
    return ProblemSearch(
        settings=len(grid.entries),
        failed=sum(entry.ms is None for entry in grid.entries),
        best_ms=grid.best_ms,
        first_ms=grid.best_ms / first if first else None,
        reached=reached,
        evaluations_to_99=to_99,
        curves=curves,
    )


def spread_of(values: Sequence[float]) -> Spread:
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
    return Spread(median=round(median(values), 4), low=round(low, 4), high=round(high, 4))


def steps_to(share: float, curves: Sequence[Curve]) -> float | None:
    """Median number of evaluations until a share is reached."""
    never = len(curves[0]) + 1
    found = median(next((step for step, reached in enumerate(curve, 1) if reached >= share), never) for curve in curves)
    return None if found >= never else found


def medians(curves: Sequence[Curve]) -> list[float]:
    return [round(median(at), 4) for at in zip(*curves, strict=True)]


def against(problems: Iterable[ProblemSearch], default: str, opponent: str, budget: int) -> Comparison:
    gaps = [p.reached[default][str(budget)].median - p.reached[opponent][str(budget)].median for p in problems]
    better, worse = sum(gap > EQUAL for gap in gaps), sum(gap < -EQUAL for gap in gaps)
    return Comparison(better=better, equal=len(gaps) - better - worse, worse=worse)


def report_of(
    grids: Sequence[Grid], found: Sequence[ProblemSearch], budgets: Sequence[int], seeds: int
) -> SearchReport:
    problems = {grid.problem.name: each for grid, each in zip(grids, found, strict=True)}
    names = list(found[0].reached)
    default = Context().strategy
    return SearchReport(
        default=default,
        budgets=tuple(budgets),
        seeds=seeds,
        mean_of_medians={
            name: {str(b): round(mean(p.reached[name][str(b)].median for p in found), 4) for b in budgets}
            for name in names
        },
        default_against={
            other: {str(b): against(found, default, other, b) for b in budgets} for other in names if other != default
        },
        problems=problems,
        gpu=grids[0].gpu,
        versions=grids[0].versions,
        grids_commit=", ".join(sorted({grid.commit for grid in grids})),
        commit=provenance.commit(),
        command="",
    )


def lines(report: SearchReport) -> list[str]:
    """The outcome as a table."""
    grids, seeds = counted(len(report.problems), "grid"), counted(report.seeds, "seed")
    rows = [f"share of the best of {grids}, mean of medians over {seeds}"]
    for name, shares in report.mean_of_medians.items():
        cells = [f"{name:<8}", *(f"{share:.4f} at {budget}" for budget, share in shares.items())]
        if name in report.default_against:
            versus = report.default_against[name]
            cells += [
                f"{report.default} better/equal/worse {v.better}/{v.equal}/{v.worse} at {b}" for b, v in versus.items()
            ]
        rows.append("  ".join(cells))
    return rows


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m warpsmith.evals.compare_strategies", description="Compares searches."
    )
    parser.add_argument("--grids", type=Path, default=GRID_DIR, help="folder of recorded grids")
    parser.add_argument("--out", type=Path, default=Path("docs/results/search-replay.json"))
    parser.add_argument("--plot", type=Path, default=Path("docs/results/search-replay.svg"))
    parser.add_argument("--strategies", default=",".join((*STRATEGIES, *OPPONENTS)), help="comma-separated names")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, arguments: list[str] | None) -> int:
    grids = load_grids(options.grids)
    if not grids:
        raise InvalidInput(f"{options.grids}: no recorded grids; record some with warpsmith.evals.record_grid on a GPU")
    names = [name.strip() for name in options.strategies.split(",") if name.strip()]
    unknown = [name for name in names if name not in (*STRATEGIES, *OPPONENTS)]
    if unknown or Context().strategy not in names:
        known = ", ".join((*STRATEGIES, *OPPONENTS))
        raise InvalidInput(f"--strategies: {unknown or names}: name {Context().strategy} and any of {known}")
    if "tpe" in names and find_spec("optuna") is None:
        raise InvalidInput("optuna is not installed: pip install optuna, or leave tpe out with --strategies")
    with ProcessPoolExecutor(options.jobs) as pool:
        running = [pool.submit(search_problem, grid, names, BUDGETS, options.seeds) for grid in grids]
        found = [each.result() for each in running]
    report = report_of(grids, found, BUDGETS, options.seeds)
    report = report.model_copy(update={"command": provenance.command("warpsmith.evals.compare_strategies", arguments)})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.out, json.dumps(report.model_dump(), indent=1) + "\n")
    write_whole(options.plot, plot_svg({name: each.curves for name, each in report.problems.items()}, report.default))
    sys.stderr.write("\n".join(lines(report)) + "\n")
    return 0 if report.default_wins else 1


def main(arguments: list[str] | None = None) -> int:
    try:
        return run(parse(arguments), arguments)
    except WarpsmithError as error:
        sys.stderr.write(f"compare_strategies: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
