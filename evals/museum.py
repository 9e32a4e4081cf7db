"""Judges every exhibit of the exploit museum that this machine can judge: hostile candidates and honest controls.

    python -m warpsmith.evals.museum --tier quick --repeat 3 --out docs/results/exploits-h200.json

On a GPU all are judged. Without one it is a dry run over those that need none: Triton is interpreted, CUDA C++ is left
out. A hostile candidate counts as caught when it is not accepted and the harness is unharmed; an honest control counts
as accepted when it passes (in a dry run: when all its checks pass). Rows that are run replace old ones in the file, the
others stay. The file is written after every verdict: with `--resume` a run that was cut off goes on, and exhibits whose
source changed are judged again.

Exit status: 0 if all were caught and none falsely accused, 1 if not, 2 for bad input, 130 if interrupted.
"""

import argparse
import os
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

from ..state.base import Record
from ..state.errors import InfraError, InvalidInput, WarpsmithError
from ..state.evaluation import Status, Tier
from ..state.problem import Problem
from ..tools.compile_pool import COMPILE_S
from ..tools.harness import Harness
from ..tools.local import HarnessSettings, open_harness
from . import museum_report, provenance
from .exhibits import Exhibit, collect
from .museum_report import CRASHED, Conditions, Ledger, Verdict, verdict_of
from .suite import read_shard

SECRET_NAME = "WARPSMITH_MUSEUM_SECRET"
"""Set in this process; exhibits that find it anywhere have broken out."""
MOST_HOST_MEMORY_BYTES = 8 << 30
"""For one exhibit; an eighth of the machine's where that is less, since several are judged at once.

Those that hoard memory go for ten gigabytes.
"""
_DRY_COMPILE_S = 75.0
"""In a dry run; some exhibits hang while they compile."""
_DRY_CALL_S = 15.0
"""In a dry run nothing counts as compiled ahead, and each that hangs would take the minute of a call that compiles."""
Report = Callable[[str], None]


class MuseumRun(Record):
    """What to judge and how."""

    exhibits: tuple[Exhibit, ...]
    tier: Tier = "quick"
    repeat: int = 1
    threads: int = 4


def open_museum(folder: Path, gpu: int = 0, require_gpu: bool = False, dry_run: bool | None = None) -> Harness:
    """A harness for hostile candidates: little host memory each, the baseline timed eagerly only."""
    os.environ.setdefault(SECRET_NAME, secrets.token_hex(16))
    settings = HarnessSettings(
        work_dir=folder,
        gpu=gpu,
        require_gpu=require_gpu,
        dry_run=dry_run,
        racing=False,
        baseline_names=("eager",),
        max_memory_bytes=min(MOST_HOST_MEMORY_BYTES, _machine_bytes() // 8),
        compile_workers=max(3, (os.cpu_count() or 2) // 2),
        compile_limit_s=_DRY_COMPILE_S if dry_run else COMPILE_S,
        call_limit_s=_DRY_CALL_S if dry_run else None,
    )
    return open_harness(settings)


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def judge(harness: Harness, problem: Problem, exhibit: Exhibit, tier: Tier, run: int) -> Verdict:
    """One verdict, whatever happens: what the harness raises is recorded as its own failure."""
    started = time.monotonic()
    try:
        return verdict_of(harness.evaluate(problem, exhibit.candidate(run), tier), harness.device().simulated)
    except InfraError as error:
        status, text = Status.INFRA_ERROR.value, str(error)
    except Exception as error:  # noqa: BLE001 - a harness that raises on a hostile candidate is what is looked for
        traceback.print_exc()
        status, text = CRASHED, f"{type(error).__name__}: {error}"
    return Verdict(status=status, accepted=False, message=text[:300], seconds=round(time.monotonic() - started, 3))


def prepare(harness: Harness, problem: Problem, say: Report) -> None:
    """Vets a problem; on a GPU the reference is timed against itself, which calibrates the judge's clock."""
    for note in harness.vet(problem):
        say(f"{problem.name}: {note}")
    if not harness.device().simulated:
        try:
            harness.baseline(problem)
        except InfraError as error:
            say(f"{problem.name}: its clocks are not calibrated: {error}")


def run_museum(run: MuseumRun, harness: Harness, ledger: Ledger, say: Report) -> None:
    """Judges each exhibit until it has `repeat` verdicts, each on new draws; one problem after the other."""

    def one(exhibit: Exhibit, number: int, problem: Problem | None = None) -> None:
        verdict = judge(harness, problem or harness.load(exhibit.problem_path), exhibit, run.tier, number)
        ledger.add(exhibit, verdict)
        say(f"{exhibit.name:<52} {verdict.status:<20} {verdict.seconds:6.2f} s  {_line(verdict.message)}")

    with ThreadPoolExecutor(run.threads) as pool, ThreadPoolExecutor(run.threads) as aside:
        # What hangs while it compiles needs no judge: all others go on beside it.
        hanging = [exhibit for exhibit in run.exhibits if hangs_in_compilation(exhibit)]
        waits = [aside.submit(one, exhibit, n) for n, some in due(run, ledger, hanging) for exhibit in some]
        for problem, rounds in loaded(run, harness, ledger):
            prepare(harness, problem, say)
            for place, (number, exhibits) in enumerate(rounds):
                if place:
                    harness.renew(problem)
                # What is compiled stays compiled: repeats are judged anew, on new draws. What was refused by a compiler
                # is compiled anew: its verdict would only be told again.
                numbers = [number if ledger.refused_by_compiler(each) else rounds[0][0] for each in exhibits]
                list(pool.map(partial(one, problem=problem), exhibits, numbers))
        for each in waits:
            each.result()


Rounds = list[tuple[int, list[Exhibit]]]


def due(run: MuseumRun, ledger: Ledger, exhibits: Sequence[Exhibit]) -> Rounds:
    """By number of the round: the exhibits that lack its verdict. Rounds that none lacks are left out."""
    rounds = [(n, [exhibit for exhibit in exhibits if ledger.count(exhibit) <= n]) for n in range(run.repeat)]
    return [(number, some) for number, some in rounds if some]


def loaded(run: MuseumRun, harness: Harness, ledger: Ledger) -> Iterator[tuple[Problem, Rounds]]:
    """Problems with what is due on them. The next is read, and lowered, while the one before is judged."""
    by_problem: dict[Path, list[Exhibit]] = {}
    for exhibit in run.exhibits:
        if not hangs_in_compilation(exhibit):
            by_problem.setdefault(exhibit.problem_path, []).append(exhibit)
    wanted = [(path, rounds) for path, group in by_problem.items() if (rounds := due(run, ledger, group))]
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(harness.load, wanted[0][0]) if wanted else None
        for place, (_, rounds) in enumerate(wanted):
            assert coming is not None
            problem = coming.result()
            if place + 1 < len(wanted):
                coming = reader.submit(harness.load, wanted[place + 1][0])
            yield problem, rounds


def hangs_in_compilation(exhibit: Exhibit) -> bool:
    return exhibit.family == "compile_time" and Status.TIMEOUT in exhibit.expect


def _line(message: str) -> str:
    return message.splitlines()[0][:80] if message else ""


def judgeable(exhibits: Sequence[Exhibit], dry: bool) -> tuple[Exhibit, ...]:
    return tuple(exhibit for exhibit in exhibits if exhibit.needs == "cpu" or not dry)


def part_of(exhibits: Sequence[Exhibit], shard: str) -> tuple[Exhibit, ...]:
    """Part i of n, for `i/n`, by problem: opening and vetting one takes seconds, so few parts should share it.

    Raises InvalidInput for a shard that is not `i/n` with 0 <= i < n.
    """
    index, count = read_shard(shard)
    ordered = sorted(exhibits, key=lambda exhibit: exhibit.problem)
    return tuple(ordered[index * len(ordered) // count : (index + 1) * len(ordered) // count])


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m warpsmith.evals.museum", description="Judges the exploit museum.")
    parser.add_argument("--tier", choices=("quick", "full", "record"), default="quick")
    parser.add_argument("--repeat", type=int, default=1, help="verdicts an exhibit, each on new draws")
    parser.add_argument(
        "--only", default="", help="only exhibits with one of these comma-separated texts in their name"
    )
    parser.add_argument("--shard", default="0/1", help="i/n: one of n parts; all may write one file")
    parser.add_argument("--out", type=Path, help="result file, merged into")
    parser.add_argument("--resume", action="store_true", help="run only what the file lacks")
    parser.add_argument("--threads", type=int, default=4, help="exhibits that compile while others are judged")
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU")
    parser.add_argument("--require-gpu", action="store_true", help="fail where there is no GPU")
    parser.add_argument("--dry-run", action="store_true", help="never use a GPU")
    parser.add_argument("--commit", default="", help="commit to state; by default WARPSMITH_COMMIT or git's")
    return parser.parse_args(arguments)


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def visit(options: argparse.Namespace, arguments: list[str] | None) -> int:
    """The command without its error handling."""
    dry_run = True if options.dry_run else None
    with (
        tempfile.TemporaryDirectory(prefix="warpsmith-museum-") as folder,
        closing(open_museum(Path(folder), options.gpu, options.require_gpu, dry_run)) as harness,
    ):
        device = harness.device()
        exhibits = part_of(judgeable(collect(options.only), device.simulated), options.shard)
        conditions = Conditions(
            tier=options.tier,
            repeat=options.repeat,
            gpu="" if device.simulated else device.name,
            versions=device.versions,
            dry_run=device.simulated,
            commit=provenance.commit(options.commit),
            command=provenance.command("warpsmith.evals.museum", arguments),
        )
        ledger = Ledger(options.out, conditions)
        ledger.forget(exhibits, changed_only=options.resume)
        run = MuseumRun(exhibits=exhibits, tier=options.tier, repeat=options.repeat, threads=options.threads)
        run_museum(run, harness, ledger, say)
    content = ledger.content()
    for line in museum_report.lines(content):
        say(line)
    return 0 if not content["missed"] and not content["falsely_accused"] else 1


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.repeat < 1:
        say("museum: --repeat must be 1 or more")
        return 2
    try:
        return visit(options, arguments)
    except (InvalidInput, WarpsmithError) as error:
        say(f"museum: {error}")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
