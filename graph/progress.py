"""What a person or a program sees while runs go on: a live line on a terminal, JSON lines on stdout otherwise."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ..state.trajectory import BatchRow, Result
from ..state.wording import NOT_COMPARED, counted, estimated
from .batch import BatchResult
from .spending import spending_lines


class Progress(Protocol):
    """Hears of events and results."""

    def hear(self, event: dict[str, Any]) -> None: ...
    def finished(self, result: Result) -> None: ...
    def interrupted(self, run_dir: Path, result: Result | None) -> None: ...
    def row(self, row: BatchRow, skipped: bool) -> None: ...
    def batch_finished(self, done: BatchResult) -> None: ...


@contextmanager
def listening() -> Iterator[Progress]:
    """The display that fits where stdout goes."""
    if not sys.stdout.isatty():
        yield JsonLines()
        return
    from .live import LiveProgress

    with LiveProgress() as live:
        yield live


class JsonLines:
    """Events as JSON lines on stdout; the outcome in words on stderr."""

    def hear(self, event: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def finished(self, result: Result) -> None:
        self._say(summary_lines(result))

    def interrupted(self, run_dir: Path, result: Result | None) -> None:
        self.hear({"event": "interrupted", "run_dir": str(run_dir), "best": result.best if result else None})
        self._say(interrupted_lines(run_dir, result))

    def row(self, row: BatchRow, skipped: bool) -> None:
        self.hear({"event": "row", "skipped": skipped, **row.model_dump(mode="json")})
        self._say([row_line(row, skipped)])

    def batch_finished(self, done: BatchResult) -> None:
        against = {name: {str(p): done.fast_p(p, name) for p in (0, 1, 2)} for name in ("best", "eager", "compile")}
        self.hear({"event": "batch_finished", "problems": len(done.rows), "fast_p": against, "failed": done.causes})
        self._say(batch_lines(done))

    def _say(self, lines: list[str]) -> None:
        sys.stderr.write("".join(f"{line}\n" for line in lines))


def summary_lines(result: Result) -> list[str]:
    """The outcome in a few lines."""
    tried, reason = counted(result.tried, "candidate"), result.stop_reason.replace("_", " ")
    tail = f"{tried} in {result.seconds:.0f} s; stopped: {reason}"
    if result.outcome == "nothing":
        causes = ", ".join(f"{count} {status}" for status, count in result.statuses.items()) or "none proposed"
        return [
            f"{result.problem}: no verified kernel ({causes})",
            f"  {result.plan}",
            f"  {tail}",
            *models_lines(result),
            f"  {result.run_dir}",
        ]
    head = f"{result.problem}: {result.language} kernel, "
    if result.outcome == "estimated":
        head += f"{estimated(result.estimated_sol_fraction or 0)} (dry run: untimed)"
    else:
        head += f"{result.speedup:.3g}x over the best baseline, {result.ms:.4g} ms"
        if result.sol_fraction is not None:
            head += f", {result.sol_fraction:.0%} of the speed of light"
    compared = [] if result.compared else [f"  {NOT_COMPARED}"]
    paths = [f"  {result.best_path}", f"  {Path(result.run_dir) / 'report.html'}"]
    return [head, *compared, f"  {tail}", *models_lines(result), *paths]


def models_lines(result: Result) -> list[str]:
    """What models cost, where any were asked."""
    if result.models is None:
        return []
    return [f"  {line}" for line in spending_lines(result.models)]


def interrupted_lines(run_dir: Path, result: Result | None) -> list[str]:
    if not run_dir.exists():
        return ["interrupted: before anything was tried, so nothing is kept"]
    found = f"best so far in {result.best_path}" if result and result.best else "nothing verified yet"
    return [f"interrupted: {found}", f"  go on with: --resume {run_dir}"]


def row_line(row: BatchRow, skipped: bool) -> str:
    """One problem of a batch in one line."""
    name = Path(row.file).name
    if not row.ok:
        return f"{name}: failed ({row.cause}): {row.message.splitlines()[-1] if row.message else ''}"
    speedup = row.speedup_over.get("best")
    gain = f"{speedup:.3g}x" if speedup is not None else estimated(row.estimated_sol_fraction or 0)
    before = " (done before)" if skipped else ""
    return f"{name}: {gain}, {row.language}, {counted(row.tried, 'candidate')}, {row.seconds:.0f} s{before}"


def batch_lines(done: BatchResult) -> list[str]:
    """The closing table."""
    lines = [f"{counted(len(done.rows), 'problem')}, {len(done.failed)} failed; {done.results_file}"]
    if any(row.outcome == "estimated" for row in done.rows):
        lines.append("dry run: nothing was timed, so no result counts as correct or fast")
    lines.append(f"{'':8}{'fast_0':>8}{'fast_1':>8}{'fast_2':>8}")
    for name in ("best", "eager", "compile"):
        lines.append(f"{name:8}" + "".join(f"{done.fast_p(p, name):8.2f}" for p in (0, 1, 2)))
    lines += [f"failed: {count} {cause}" for cause, count in done.causes.items()]
    return lines
