"""Runs the controller with a model whose answers were written down, on problems that no template covered at first.

    python -m warpsmith.evals.run_llm --out docs/results/llm-h200.json --baselines docs/results/baselines-llm-h200.json

Everything but the model is real: what the answers hold is read, compiled, judged, repaired and timed as in any run.
Each file of answers says who wrote them. With `--resume` only problems are run that have no row yet, whose problem or
answers changed, or that failed for the machine's fault.

Exit status: 0 if every problem that was run passed (in a dry run: has an estimate), 1 if not, 2 for bad input, 130 if
interrupted.
"""

import argparse
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..graph.api import optimize
from ..graph.services import Collaborators, open_harness_for
from ..graph.settings import make_context
from ..state.base import digest
from ..state.channels import Context
from ..state.errors import InfraError, InvalidInput, InvalidProblem
from ..state.wording import estimated
from ..sub_agents.llm.written import WrittenAnswers, WrittenModel, read_written
from ..tools.harness import Harness
from . import provenance
from .bench_command import BenchCommand, bench_settings, kept_rows
from .llm.report import Judged, LlmReport, LlmRow, answer_rows, load, row_of, save
from .suite import read_shard

FOLDER = Path(__file__).parent / "llm"
ANSWERS, PROBLEMS = FOLDER / "answers", FOLDER / "problems"
COMMAND = BenchCommand(name="run_llm", description="Runs with written answers.", topic="llm", resumes=True)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A problem with its answers."""

    problem: Path
    written: WrittenAnswers

    @property
    def name(self) -> str:
        return self.problem.stem

    @property
    def source_id(self) -> str:
        return digest(self.problem.read_text(encoding="utf-8"), self.written.model_dump(mode="json"))[:16]


def cases(names: str = "", shard: str = "0/1") -> list[Case]:
    """Cases by comma-separated problem names (all for none), of which every n-th from i for `shard` = `i/n`."""
    found = {path.stem: path for path in sorted(ANSWERS.glob("*.jsonl"))}
    wanted = [name.strip() for name in names.split(",") if name.strip()] or list(found)
    unknown = [name for name in wanted if name not in found]
    if unknown:
        raise InvalidInput(f"--problems: no answers for {unknown[0]!r}; known: {', '.join(found)}")
    index, count = read_shard(shard)
    chosen = wanted[index::count]
    return [Case(problem=PROBLEMS / f"{name}.py", written=read_written(found[name])) for name in chosen]


def run_case(case: Case, harness: Harness, settings: dict[str, Any], commit: str) -> LlmRow:
    """One problem's row. Raises what `optimize` raises."""
    model = WrittenModel(case.written.answers)
    given = Collaborators(harness=harness, model=model)
    result = optimize(case.problem, given=given, **{**settings, **case.written.settings, "writer": "llm"})
    if not result.complete:
        raise KeyboardInterrupt
    judged = Judged(result=result, problem=harness.load(case.problem))
    answers = answer_rows(model.given, model.unasked, judged, harness)
    return row_of(case.written.written_by, result, answers, source_id=case.source_id, commit=commit)


def run_all(chosen: list[Case], run: Callable[[Case], LlmRow], keep: Callable[[LlmRow], None]) -> list[LlmRow]:
    """Every case's row, kept as soon as it is there: a failure of one must not cost the others."""
    return kept_rows(chosen, lambda case: _run_or_failed(case, run), keep, line_of)


def _run_or_failed(case: Case, run: Callable[[Case], LlmRow]) -> LlmRow:
    try:
        return run(case)
    except InvalidProblem as error:
        return _failed(case, "invalid_problem", str(error))
    except InfraError as error:
        return _failed(case, "infra_error", str(error))
    except InvalidInput:
        raise
    except Exception as error:  # noqa: BLE001 - a defect met on one problem is that problem's row, with its trace
        traceback.print_exc()
        return _failed(case, "crashed", f"{type(error).__name__}: {error}")


def _failed(case: Case, status: str, message: str) -> LlmRow:
    by = case.written.written_by
    return LlmRow(problem=case.name, written_by=by, status=status, message=message, source_id=case.source_id)


def line_of(row: LlmRow) -> str:
    """One line on one problem."""
    gain = (
        f"{row.speedup:.2f}x"
        if row.speedup
        else estimated(row.estimated_sol_fraction)
        if row.estimated_sol_fraction
        else ""
    )
    times = f"{row.best_ms:.4g} ms against {row.baseline_ms:.4g}" if row.best_ms and row.baseline_ms else ""
    statuses = " ".join(answer.status for answer in row.answers)
    cells = [f"{row.problem:<20}", row.status, row.verdict, gain, times, row.language, f"[{statuses}]", row.message]
    return " ".join(cell for cell in cells if cell) + f" ({row.seconds:.1f} s)"


def pending(chosen: list[Case], out: Path) -> list[Case]:
    """The cases that a resumed run still has to do."""
    done = {row.problem: row.source_id for row in load(out).rows if row.done}
    return [case for case in chosen if done.get(case.name) != case.source_id]


def run(options: argparse.Namespace, arguments: list[str] | None) -> int:
    chosen = cases(options.problems, options.shard)
    chosen = pending(chosen, options.out) if options.resume else chosen
    settings = {**bench_settings(options), "max_concurrency": 1}  # The order of asks decides which answer each gets.
    context: Context = make_context(settings)
    commit = provenance.commit(options.commit)
    with closing(open_harness_for(context)) as harness:
        device = harness.device()
        report = LlmReport(
            gpu=device.name,
            versions=device.versions,
            commit=commit,
            command=provenance.command(COMMAND.module, arguments),
            dry_run=device.simulated,
        )
        rows = run_all(
            chosen,
            lambda case: run_case(case, harness, settings, commit),
            lambda row: save(options.out, report.model_copy(update={"rows": (row,)})),
        )
    return 0 if all(row.status in ("passed", "unverified") for row in rows) else 1


def main(arguments: list[str] | None = None) -> int:
    options = COMMAND.parser().parse_args(arguments)
    return COMMAND.exit_status(options.out, lambda: run(options, arguments))


if __name__ == "__main__":
    sys.exit(main())
