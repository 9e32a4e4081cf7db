"""The live display on a terminal: phase, candidates tried, best so far, budget left."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from ..state.trajectory import BatchRow, Result
from ..state.wording import estimated
from .batch import BatchResult
from .progress import batch_lines, interrupted_lines, row_line, summary_lines


class LiveProgress:
    """One line that changes, and lasting lines for what matters."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._problem = ""
        self._phase = "starting"
        self._tried = self._failed = self._budget = 0
        self._best = ""
        self._dry_run = False
        self._seconds_left: float | None = None
        # Last, since it draws at once.
        self._live = Live(console=self.console, refresh_per_second=8, transient=True, get_renderable=self.line)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def line(self) -> Text:
        """The line as it stands."""
        parts = [self._problem, self._phase, f"tried {self._tried}/{self._budget or '?'}"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        parts.append(self._best or "no kernel yet")
        if self._seconds_left is not None:
            parts.append(f"{self._seconds_left:.0f} s left")
        return Text("  ".join(part for part in parts if part))

    def hear(self, event: dict[str, Any]) -> None:
        """Takes an event into the line."""
        match event:
            case {"event": "problem_loaded", "problem": problem, "device": device, "dry_run": dry_run}:
                self._problem, self._tried, self._failed, self._best = problem, 0, 0, ""
                self._dry_run = dry_run
                self._phase = "measuring baselines"
                self._print(f"{problem} on {device}{', dry run: estimated, untimed' if dry_run else ''}")
            case {"event": "planned", "summary": summary}:
                self._print(f"  plan: {summary}")
            case {"event": "round_opened", "phase": phase, "budget": budget, "seconds_left": left}:
                self._phase, self._budget, self._seconds_left = phase, budget, left
            case {"event": "evaluated", "status": status}:
                self._tried += 1
                self._failed += status not in ("passed", "unverified")
            case {"event": "best", "language": language, "rank": rank, "ms": ms}:
                gain = estimated(rank) if self._dry_run else f"{rank:.3g}x"
                self._best = f"best {gain} ({language}, {ms:.4g} ms)"
                self._print(f"  {self._phase}: {self._best}")
            case {"event": "fitted", "workload": workload, "rank": rank, "best": best} if rank > best:
                self._print(f"  by the sizes of {workload}: {rank:.3g}x where the best had {best:.3g}x")
            case {"event": "combined", "rank": rank, "best": best}:
                self._print(f"  two kernels by size: {rank:.3g}x where the best alone has {best:.3g}x")
            case {"event": "cross_validated" | "final_checked" as step}:
                self._phase = step.replace("_", " ")

    def finished(self, result: Result) -> None:
        self._print(*summary_lines(result))

    def interrupted(self, run_dir: Path, result: Result | None) -> None:
        self._print(*interrupted_lines(run_dir, result))

    def row(self, row: BatchRow, skipped: bool) -> None:
        self._print(row_line(row, skipped))

    def batch_finished(self, done: BatchResult) -> None:
        self._print(*batch_lines(done))

    def _print(self, *lines: str) -> None:
        for line in lines:
            self.console.print(escape(line), soft_wrap=True, highlight=False)
