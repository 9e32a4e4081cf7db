"""Times the baselines of the suite (eager, torch.compile and what problems ship) into a file that later runs read.

    python -m warpsmith.evals.run_baselines --out docs/results/baselines-h200.json --require-gpu

Problems that the file has for this GPU and these versions are only read. For several GPUs start one process each with
`--shard 0/2 --gpu 0` and so on and a file of its own, since the harness writes it whole;
`warpsmith.evals.merge_results` then makes one of them.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ..graph.bench import Bench
from ..state.errors import InfraError, InvalidProblem, WarpsmithError
from ..state.timing import Baselines
from ..state.wording import counted
from .bench_command import say
from .suite import SuiteProblem, select


def described(baselines: Baselines) -> str:
    """One line: every time on the main workload, and how many entries have none."""
    main = baselines.entries[0].workload if baselines.entries else ""
    times = [f"{entry.name} {entry.ms:.4g}" for entry in baselines.entries if entry.workload == main and entry.ms]
    failed = [f"{entry.name} on {entry.workload}: {entry.error}" for entry in baselines.entries if entry.error]
    return ", ".join(times or ["no times"]) + (f"; {len(failed)} failed ({failed[0]})" if failed else " ms")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m warpsmith.evals.run_baselines", description="Times the baselines.")
    parser.add_argument("--out", type=Path, default=Path("docs/results/baselines.json"), help="file, added to")
    parser.add_argument("--problems", default="", help="comma-separated names; all by default")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th problem from i")
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU to measure on")
    parser.add_argument("--work", type=Path, default=Path("runs/baselines"), help="folder for the harness's files")
    parser.add_argument("--require-gpu", action="store_true", help="fail where there is no GPU")
    return parser.parse_args(arguments)


def run_baselines(problems: tuple[SuiteProblem, ...], bench: Bench, say: Callable[[str], None]) -> list[str]:
    """Times each problem's baselines, one line each; returns the names of those that failed."""
    failed = []
    for number, problem in enumerate(problems, 1):
        started = time.monotonic()
        try:
            line = described(bench.baseline(problem.path))
        except (InvalidProblem, InfraError) as error:
            failed.append(problem.name)
            line = f"failed: {error}"
        seconds = time.monotonic() - started
        say(f"[{number:>2}/{len(problems)}] {problem.name:<26} {line} ({seconds:.1f} s)")
    return failed


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        problems = select(options.problems, options.shard)
        work = options.work / f"gpu{options.gpu}"
        settings = {"gpu": options.gpu, "out": str(work), "baselines": str(options.out)}
        with closing(Bench(**settings, require_gpu=options.require_gpu)) as bench:
            failed = run_baselines(problems, bench, say)
    except WarpsmithError as error:
        say(f"run_baselines: {error}")
        return 2
    except KeyboardInterrupt:
        say(f"run_baselines: interrupted; what is done is in {options.out}")
        return 130
    say(f"{len(problems) - len(failed)} of {counted(len(problems), 'problem')} with baselines in {options.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
