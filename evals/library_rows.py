"""What a comparison without and with the library comes to: rows, summary and file."""

from collections import Counter
from collections.abc import Sequence
from math import hypot
from pathlib import Path
from typing import Literal

from pydantic import Field

from ..graph.feedback import NOISE
from ..state.base import Record
from ..state.errors import InvalidInput
from ..state.scores import geometric_mean
from ..state.timing import Sample, Timing
from ..state.trajectory import Result
from .result_file import commands, locked, read_results, write_results

Compared = Literal["better", "level", "worse", "nothing"]
COMPARED = ("better", "level", "worse", "nothing")


class LibraryRow(Record):
    """One problem with other sizes, without the library and with it. Evaluations count from 1."""

    problem: str
    """The suite problem that filled the library, whose reference was then optimised at other sizes."""
    status: Compared | Literal["empty", "refused", "failed"]
    """With the library against without it, beyond noise; `nothing`: neither run had a kernel; `empty`: the first run
    left nothing in the library; `refused`: the problem at other sizes; `failed`: the machine."""
    offered: int = 0
    """Candidates that came from the library."""
    offered_passed: int = 0
    speedup_of_first: float | None = None
    """Of the run that filled the library, at its own sizes."""
    speedup_without: float | None = None
    speedup_with: float | None = None
    """Over the best baseline, all timed workloads, by the final check."""
    noise: float | None = None
    """Relative difference of the two speedups up to which they are level."""
    verdict_without: str = ""
    verdict_with: str = ""
    best_at_without: int | None = None
    best_at_with: int | None = None
    """Number of the evaluation that was of the winner."""
    level_at_with: int | None = None
    """First evaluation with the library that came up to the best without it, by the quick tier; None: none did."""
    best_from_library: bool = False
    tried_without: int = 0
    tried_with: int = 0
    notes: tuple[str, ...] = ()
    message: str = ""
    commit: str = ""


class Summary(Record):
    """Means are over the rows that have both speedups."""

    problems: int
    statuses: dict[str, int]
    with_offers: int
    """Problems to which the library offered anything."""
    best_from_library: int
    timed: int
    geometric_mean_speedup_without: float | None = None
    geometric_mean_speedup_with: float | None = None
    mean_best_at_without: float | None = None
    mean_best_at_with: float | None = None
    level_at_first_evaluation: int = 0
    """Problems where the first evaluation with the library came up to the best of the whole run without it."""


class LibraryResults(Record):
    """The result file."""

    budget: int
    seed_budget: int
    gpu: str = ""
    dry_run: bool = False
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str = ""
    command: str = ""
    summary: Summary | None = None
    rows: tuple[LibraryRow, ...] = ()


def row_of(row: LibraryRow, without: Result, with_library: Result) -> LibraryRow:
    """The row with what two runs on the problem at other sizes came to."""
    offers = [entry for entry in with_library.trajectory if entry.asked == "library"]
    noise = noise_of(without, with_library)
    return row.model_copy(
        update={
            "status": compared(without, with_library, noise),
            "offered": len(offers),
            "offered_passed": sum(entry.rank > 0 for entry in offers),
            "speedup_without": without.speedup,
            "speedup_with": with_library.speedup,
            "noise": round(noise, 5),
            "verdict_without": without.verdict,
            "verdict_with": with_library.verdict,
            "best_at_without": best_at(without),
            "best_at_with": best_at(with_library),
            "level_at_with": _level_at(without, with_library),
            "best_from_library": any(entry.id == with_library.best for entry in offers),
            "tried_without": without.tried,
            "tried_with": with_library.tried,
            "notes": _notes(without, with_library),
        }
    )


def compared(without: Result, with_library: Result, noise: float) -> Compared:
    if not with_library.speedup or not without.speedup:
        return "better" if with_library.speedup else "worse" if without.speedup else "nothing"
    change = with_library.speedup / without.speedup - 1
    if with_library.best == without.best or abs(change) <= noise:
        return "level"
    return "better" if change > 0 else "worse"


def noise_of(*results: Result) -> float:
    """By how much the ratio of geometric mean speedups may be off: all samples' 95% intervals, taken together."""
    widths = [_mean_width(result.timings) for result in results if result.timings]
    return max(NOISE, hypot(*widths))


def _mean_width(timings: Sequence[Timing]) -> float:
    """Half of the relative 95% interval of a geometric mean of speedups."""
    samples = [sample for timing in timings for sample in (timing.candidate, timing.baseline)]
    return hypot(*(_half_width(sample) for sample in samples)) / len(timings)


def _half_width(sample: Sample) -> float:
    return (sample.high_ms - sample.low_ms) / (2 * sample.median_ms)


def best_at(result: Result) -> int | None:
    """Number of the evaluation that was of the winner."""
    return next((number for number, entry in enumerate(result.trajectory, 1) if entry.id == result.best), None)


def _level_at(without: Result, with_library: Result) -> int | None:
    best = max((entry.rank for entry in without.trajectory), default=0.0)
    reached = (number for number, entry in enumerate(with_library.trajectory, 1) if entry.rank >= best * (1 - NOISE))
    return next(reached, None) if best > 0 else None


def _notes(*results: Result) -> tuple[str, ...]:
    """What makes a problem's times hard to compare: too little work, or a reference that wrong answers satisfy."""
    vetted = [note for result in results for note in result.notes if note.startswith("degenerate")]
    timed = [f"{timing.workload}: {timing.note}" for result in results for timing in result.timings if timing.note]
    return tuple(dict.fromkeys([*vetted, *timed]))


def summarised(rows: Sequence[LibraryRow]) -> Summary:
    timed = [row for row in rows if row.speedup_without and row.speedup_with]
    both = [row for row in timed if row.best_at_without and row.best_at_with]
    return Summary(
        problems=len(rows),
        statuses=dict(Counter(row.status for row in rows)),
        with_offers=sum(row.offered > 0 for row in rows),
        best_from_library=sum(row.best_from_library for row in rows),
        timed=len(timed),
        geometric_mean_speedup_without=_rounded(geometric_mean(row.speedup_without or 0.0 for row in timed), timed),
        geometric_mean_speedup_with=_rounded(geometric_mean(row.speedup_with or 0.0 for row in timed), timed),
        mean_best_at_without=_rounded(sum(row.best_at_without or 0 for row in both) / max(1, len(both)), both),
        mean_best_at_with=_rounded(sum(row.best_at_with or 0 for row in both) / max(1, len(both)), both),
        level_at_first_evaluation=sum(row.level_at_with == 1 for row in rows),
    )


def _rounded(value: float, over: Sequence[LibraryRow]) -> float | None:
    return round(value, 4) if over else None


def load(path: Path, about: LibraryResults) -> LibraryResults:
    """The file, or an empty one. Raises InvalidInput where it is of other settings or cannot be read."""
    found = read_results(path, LibraryResults)
    if found is None:
        return about
    if (found.budget, found.seed_budget, found.dry_run) != (about.budget, about.seed_budget, about.dry_run):
        dry = " --dry-run" if found.dry_run else ""
        made = f"--budget {found.budget} --seed-budget {found.seed_budget}{dry}"
        raise InvalidInput(f"{path}: was made with {made}; use that, or another --out")
    return found


def add_row(path: Path, row: LibraryRow, about: LibraryResults) -> None:
    """Adds a row under the folder's lock, in place of an older one of the same problem."""
    with locked(path):
        old = load(path, about)
        kept = [each for each in old.rows if each.problem != row.problem]
        rows = tuple(sorted([*kept, row], key=lambda each: each.problem))
        told = commands(old.command, about.command)
        write_results(path, about.model_copy(update={"rows": rows, "summary": summarised(rows), "command": told}))
