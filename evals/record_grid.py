"""Records grids of settings on a GPU, for comparing search strategies afterwards without one.

    python -m warpsmith.evals.record_grid --out evals/replay --seconds 230

These times are data for comparing searches, not verdicts: own templates only, many settings in one process, one input.
All settings first run once in parallel (which compiles and checks them), then one process times those that came out
right. A problem that is there already is skipped; one whose settings could not all be tried in time is not written.

Exit status: 0 if every grid is there, 1 if some are missing, 2 for bad input.
"""

import argparse
import os
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from ..graph.services import open_harness_for
from ..graph.settings import make_context
from ..state.errors import InvalidInput, WarpsmithError
from ..state.wording import counted
from ..sub_agents.forward_source import candidate_source
from ..sub_agents.planner import OfflinePlanner
from ..tools.harness import Harness
from . import provenance
from .grid_runs import Runner
from .replay_grid import GRID_DIR, Grid, combination_of, load_grids, open_grid, save_grid
from .suite import PROBLEMS_DIR, select

PROBLEMS = (
    "bias_gelu_tanh,rms_norm_residual,log_softmax_vocabulary,channel_l2_normalise,smooth_l1_mean,swiglu_packed,"
    "decode_projection,attention_scores,group_norm_silu,linear_fp32,attention_softmax"
)
"""Of every family, in an order in which the first eight already mix them."""
GROUP = 4
"""Problems that are compiled together before their settings are timed and written."""
LEAST = 120
"""Settings that a grid needs to be worth comparing on."""


def sources_of(grid: Grid) -> list[str]:
    """The candidate file of every entry, in order."""
    forward = grid.plan.forward
    assert forward is not None
    programs = {step.name: step for step in forward.steps}
    values = {name: (each.shape, each.dtype) for name, each in forward.values.items()}
    sources = []
    for entry in grid.entries:
        combination = combination_of(grid, entry)
        kernels = {
            name: choice.template.render(programs[name], choice.values, values)  # type: ignore[arg-type]
            for name, choice in combination.items()
        }
        sources.append(candidate_source(grid.problem.source, forward, kernels))
    return sources


def tasks_of(grid: Grid, work: Path) -> list[dict[str, str]]:
    """Writes every entry's file and returns a task for each."""
    folder = work / grid.problem.name
    folder.mkdir(parents=True, exist_ok=True)
    tasks = []
    for number, source in enumerate(sources_of(grid)):
        file = folder / f"{number}.py"
        file.write_text(source, encoding="utf-8")
        tasks.append({"id": f"{grid.problem.name}-{number}", "problem": grid.problem.path, "source": str(file)})
    return tasks


def record(grids: list[Grid], runner: Runner, jobs: int) -> list[Grid]:
    """Grids with a time or an error at every entry; those that time did not suffice for are left out."""
    tasks = {grid.problem.name: tasks_of(grid, runner.work) for grid in grids}
    listed = [task for some in tasks.values() for task in some]
    checked = runner.answers("check", listed, jobs)

    def errors(task: dict[str, str]) -> str:
        return str(checked.get(task["id"], {}).get("error", "not tried"))

    crowded = [task for task in listed if "OutOfMemory" in errors(task)]
    checked |= runner.answers("check", crowded, 1)
    right = [task for task in listed if errors(task) == ""]
    timed = runner.answers("time", right, 1)
    done = []
    for grid in grids:
        answers = [{**checked.get(task["id"], {}), **timed.get(task["id"], {})} for task in tasks[grid.problem.name]]
        if all(answer.get("ms") or answer.get("error") for answer in answers):
            entries = tuple(
                entry.model_copy(update={"ms": answer.get("ms"), "error": answer.get("error", "")})
                for entry, answer in zip(grid.entries, answers, strict=True)
            )
            done.append(grid.model_copy(update={"entries": entries, "calls": runner.calls}))
    return done


def planned(harness: Harness, names: list[str], size: int) -> list[Grid]:
    grids = []
    for name in names:
        problem = harness.load(PROBLEMS_DIR / f"{name}.py")
        plan = OfflinePlanner().plan(problem, harness.lower(problem), harness.device())
        grid = open_grid(problem, plan, harness.device(), size)
        if len(grid.entries) < LEAST:
            say(f"{name}: only {counted(len(grid.entries), 'setting')}, not recorded")
            continue
        grids.append(grid)
    return grids


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m warpsmith.evals.record_grid", description="Records grids.")
    parser.add_argument("--out", type=Path, default=GRID_DIR, help="folder of the grids")
    parser.add_argument("--problems", default=PROBLEMS, help="comma-separated names of the suite")
    parser.add_argument("--size", type=int, default=190, help="settings a problem, about")
    parser.add_argument("--calls", type=int, default=20, help="timed calls a setting")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="processes that compile")
    parser.add_argument("--seconds", type=float, default=230.0, help="wall time after which nothing is begun")
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU")
    parser.add_argument("--commit", default="", help="commit to state; by default WARPSMITH_COMMIT or git's")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, arguments: list[str] | None) -> int:
    deadline = time.monotonic() + options.seconds
    wanted = [problem.name for problem in select(options.problems)]
    there = {grid.problem.name for grid in load_grids(options.out)} if options.out.is_dir() else set()
    todo = [name for name in wanted if name not in there]
    about = {
        "commit": provenance.commit(options.commit),
        "command": provenance.command("warpsmith.evals.record_grid", arguments),
    }
    with tempfile.TemporaryDirectory(prefix="warpsmith-grid-") as scratch:
        work = Path(scratch)
        context = make_context({"gpu": options.gpu, "require_gpu": True, "out": str(work / "runs")})
        with closing(open_harness_for(context)) as harness:
            device = harness.device()
            grids = planned(harness, todo, options.size)
        environment = {"CUDA_VISIBLE_DEVICES": str(options.gpu), "TRITON_CACHE_DIR": str(work / "triton")}
        runner = Runner(work=work, calls=options.calls, deadline=deadline, environment=environment)
        about |= {"gpu": device.name}
        for first in range(0, len(grids), GROUP):
            for grid in record(grids[first : first + GROUP], runner, options.jobs):
                shown = grid.problem.model_copy(update={"path": Path(grid.problem.path).name})
                save_grid(grid.model_copy(update={**about, "versions": device.versions, "problem": shown}), options.out)
                there.add(grid.problem.name)
                failed = sum(entry.ms is None for entry in grid.entries)
                say(f"{grid.problem.name}: {len(grid.entries)} settings, {failed} failed, best {grid.best_ms:.4g} ms")
    missing = [name for name in wanted if name not in there]
    if missing:
        say(f"missing: {', '.join(missing)}; the same command goes on")
    return 1 if missing else 0


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(arguments: list[str] | None = None) -> int:
    try:
        return run(parse(arguments), arguments)
    except (WarpsmithError, InvalidInput) as error:
        say(f"record_grid: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
