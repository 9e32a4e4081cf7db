"""Many problems in a row: one bad file or crash is one failed row, and the rest go on."""

import json
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..state.base import digest
from ..state.channels import Context
from ..state.device import DeviceSheet
from ..state.errors import InvalidInput, WarpsmithError
from ..state.scores import ProblemScore, fast_p
from ..state.trajectory import BatchRow, Result
from ..state.wording import counted
from ..tools.line_file import append_line
from .bench import Bench
from .decisive import decisive
from .services import Collaborators
from .settings import check_settings, make_context


@dataclass(frozen=True)
class BatchResult:
    """The last row of every problem file, in the order of the files."""

    rows: tuple[BatchRow, ...]
    results_file: Path

    @property
    def failed(self) -> tuple[BatchRow, ...]:
        return tuple(row for row in self.rows if not row.ok)

    @property
    def causes(self) -> dict[str, int]:
        """Failures by cause, the most frequent first."""
        return dict(Counter(row.cause for row in self.failed).most_common())

    def fast_p(self, p: float, against: str = "best") -> float:
        """Share of all problems verified with a speedup above p against `best`, `eager` or `compile`."""
        return fast_p([problem_score(row, against) for row in self.rows], p)


def problem_score(row: BatchRow, against: str) -> ProblemScore:
    """What a row counts for: an estimate of a dry run is never correct."""
    return ProblemScore(row.outcome == "verified", row.speedup_over.get(against), row.custom_share)


def optimize_batch(
    folder: str | Path,
    *,
    given: Collaborators | None = None,
    on_row: Callable[[BatchRow, bool], None] | None = None,
    **settings: Any,
) -> BatchResult:
    """Optimises every `*.py` of a folder (not `_*.py`), appending a line to `<out>/results.jsonl` for each.

    A file that is done with the same settings on the same device is skipped; one that failed is tried again.
    `on_row(row, skipped)` hears of each. Raises InvalidInput for a folder without problems.
    """
    context = make_context(settings)
    check_settings(context, given)
    files = problem_files(Path(folder))
    results_file = Path(context.out) / "results.jsonl"
    done = {row.key: row for row in read_rows(results_file) if row.ok}
    bench = Bench(given, **settings)
    rows: list[BatchRow] = []
    try:
        device = bench.harness.device()
        for number, file in enumerate(files, 1):
            key = row_key(file, context, device)
            if key in done:
                row = done[key]
            else:
                bench.read_ahead(next((f for f in files[number:] if row_key(f, context, device) not in done), None))
                row = run_one(bench, file, key)
                append_row(results_file, row)
            rows.append(row)
            if on_row:
                on_row(row, key in done)
    finally:
        bench.close()
    return BatchResult(tuple(rows), results_file)


def problem_files(folder: Path) -> list[Path]:
    """The problem files of a folder, by name."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: no such folder; give one that holds problem files")
    files = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    if not files:
        raise InvalidInput(f"{folder}: holds no problem files (*.py)")
    return files


def row_key(file: Path, context: Context, device: DeviceSheet) -> str:
    """Digest of what a result depends on: source, decisive settings, and the device."""
    return digest(file.read_bytes().hex(), decisive(context), device.name, device.arch, device.simulated)[:16]


def read_rows(results_file: Path) -> list[BatchRow]:
    """All rows of a results file; a half-written last line is left out."""
    rows = []
    for line in results_file.read_text(encoding="utf-8").splitlines() if results_file.exists() else []:
        try:
            rows.append(BatchRow.model_validate(json.loads(line)))
        except ValueError:
            continue  # Killed while writing, or another version's row: that problem runs again.
    return rows


def append_row(results_file: Path, row: BatchRow) -> None:
    try:
        results_file.parent.mkdir(parents=True, exist_ok=True)
        append_line(results_file, row.model_dump_json())
    except OSError as error:
        raise InvalidInput(f"{results_file}: cannot be written ({error.strerror}); choose another --out") from error


def run_one(bench: Bench, file: Path, key: str) -> BatchRow:
    """One file's row, whatever happens: what goes wrong with one must not end the others."""
    start = time.monotonic()
    try:
        return result_row(file, key, bench.optimize(file))
    except Exception as error:  # noqa: BLE001 - a defect that one problem meets: the row says it all
        ours = isinstance(error, WarpsmithError)
        cause, message = type(error).__name__, str(error) if ours else traceback.format_exc(limit=-3).strip()
    seconds = time.monotonic() - start
    return BatchRow(key=key, file=str(file), ok=False, cause=cause, message=message, seconds=seconds)


def result_row(file: Path, key: str, result: Result) -> BatchRow:
    """A result as a row; without a kernel the cause is the status that most candidates ended in."""
    ok = result.outcome != "nothing"
    causes: Sequence[tuple[str, int]] = Counter(result.statuses).most_common(1)
    cause = causes[0][0] if causes else "nothing_proposed"
    return BatchRow(
        key=key,
        file=str(file),
        problem_id=result.problem_id,
        ok=ok,
        cause="" if ok else cause,
        message="" if ok else f"{counted(result.tried, 'candidate')} tried, none passed; {result.plan}",
        outcome=result.outcome,
        language=result.language or "",
        ms=result.ms,
        baseline_ms=result.baseline_ms,
        speedup_over=result.speedup_over,
        estimated_sol_fraction=result.estimated_sol_fraction,
        sol_fraction=result.sol_fraction,
        custom_share=result.custom_share,
        tried=result.tried,
        seconds=result.seconds,
        run_dir=result.run_dir,
    )
