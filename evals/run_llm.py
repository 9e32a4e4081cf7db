"""Runs the controller with a model whose answers were written down, on problems that no template covers.

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
from ..state.errors import InfraError, InvalidInput, InvalidProblem, WarpsmithError
from ..sub_agents.llm.written import WrittenAnswers, WrittenModel, read_written
from ..tools.harness import Harness
from . import provenance
from .llm.report import Judged, LlmReport, LlmRow, answer_rows, load, row_of, save
from .suite import read_shard

FOLDER = Path(__file__).parent / "llm"
ANSWERS, PROBLEMS = FOLDER / "answers", FOLDER / "problems"


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
    rows = []
    for case in chosen:
        try:
            row = run(case)
        except InvalidProblem as error:
            row = _failed(case, "invalid_problem", str(error))
        except InfraError as error:
            row = _failed(case, "infra_error", str(error))
        except InvalidInput:
            raise
        except Exception as error:  # noqa: BLE001 - a defect met on one problem is that problem's row, with its trace
            traceback.print_exc()
            row = _failed(case, "crashed", f"{type(error).__name__}: {error}")
        keep(row)
        rows.append(row)
        say(line_of(row))
    return rows


def _failed(case: Case, status: str, message: str) -> LlmRow:
    by = case.written.written_by
    return LlmRow(problem=case.name, written_by=by, status=status, message=message, source_id=case.source_id)


def line_of(row: LlmRow) -> str:
    """One line on one problem."""
    gain = (
        f"{row.speedup:.2f}x"
        if row.speedup
        else f"{row.estimated_speedup:.2f}x estimated"
        if row.estimated_speedup
        else ""
    )
    times = f"{row.best_ms:.4g} ms against {row.baseline_ms:.4g}" if row.best_ms and row.baseline_ms else ""
    statuses = " ".join(answer.status for answer in row.answers)
    cells = [f"{row.problem:<20}", row.status, row.verdict, gain, times, row.language, f"[{statuses}]", row.message]
    return " ".join(cell for cell in cells if cell) + f" ({row.seconds:.1f} s)"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m warpsmith.evals.run_llm", description="Runs with written answers.")
    parser.add_argument("--out", type=Path, default=Path("docs/results/llm.json"), help="result file, merged into")
    parser.add_argument("--baselines", type=Path, help="file of cached baseline times, read and added to")
    parser.add_argument("--problems", default="", help="comma-separated names; all by default")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th problem from i")
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU to measure on")
    parser.add_argument("--runs", type=Path, default=Path("runs/llm"), help="folder for the run directories")
    parser.add_argument("--resume", action="store_true", help="run only what is not done yet")
    parser.add_argument("--dry-run", action="store_true", help="never use a GPU")
    parser.add_argument("--require-gpu", action="store_true", help="fail where there is no GPU")
    parser.add_argument("--commit", default="", help="commit to state; by default WARPSMITH_COMMIT or git's")
    return parser.parse_args(arguments)


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """Settings that are not the answers' own."""
    return {
        "gpu": options.gpu,
        "out": str(options.runs / f"gpu{options.gpu}"),  # Two processes must not share a harness's scratch folder.
        "baselines": str(options.baselines) if options.baselines else None,
        "dry_run": True if options.dry_run else None,
        "require_gpu": options.require_gpu,
        "max_concurrency": 1,  # The order of asks decides which answer each gets.
    }


def pending(chosen: list[Case], out: Path) -> list[Case]:
    """The cases that a resumed run still has to do."""
    done = {row.problem: row.source_id for row in load(out).rows if row.done}
    return [case for case in chosen if done.get(case.name) != case.source_id]


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        chosen = cases(options.problems, options.shard)
        chosen = pending(chosen, options.out) if options.resume else chosen
        settings = settings_of(options)
        context: Context = make_context(settings)
        commit = provenance.commit(options.commit)
        with closing(open_harness_for(context)) as harness:
            device = harness.device()
            report = LlmReport(
                gpu=device.name,
                versions=device.versions,
                commit=commit,
                command=provenance.command("warpsmith.evals.run_llm", arguments),
                dry_run=device.simulated,
            )
            rows = run_all(
                chosen,
                lambda case: run_case(case, harness, settings, commit),
                lambda row: save(options.out, report.model_copy(update={"rows": (row,)})),
            )
    except WarpsmithError as error:
        say(f"run_llm: {error}")
        return 2
    except KeyboardInterrupt:
        say(f"run_llm: interrupted; what is done is in {options.out}, and --resume goes on")
        return 130
    return 0 if all(row.status in ("passed", "unverified") for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
