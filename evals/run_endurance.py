"""Judges hundreds of candidates in one go, one in ten of which crashes, hangs, leaks or exhausts memory.

    python -m warpsmith.evals.run_endurance --require-gpu --out docs/results/endurance-h200.json

Every verdict must be the expected one, none may be lost, and afterwards no process and no GPU memory may be left. Exit
status: 0 if so, 1 if not, 2 for bad input.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from ..state.base import Record
from ..state.candidate import Candidate, make_candidate
from ..state.errors import InfraError, WarpsmithError
from ..state.evaluation import Status
from ..tools.harness import Harness
from ..tools.local import HarnessSettings, open_harness
from ..tools.whole_file import write_whole
from . import provenance
from .bench_command import say

FOLDER = Path(__file__).parent / "endurance"
ILL_ONE_IN = 10
CALL_LIMIT_S = 3.0
_EXPECT = re.compile(r"expect: (\w+)")
_SETTLE_S = 10.0


class Case(Record):
    """One candidate and the status that it must get; `dry` is what a dry run says of one that is right."""

    candidate: Candidate
    name: str
    expected: Status

    def met_by(self, status: str, dry: bool) -> bool:
        right = Status.UNVERIFIED if dry and self.expected is Status.PASSED else self.expected
        return status == right.value


def cases(count: int, ill_one_in: int = ILL_ONE_IN) -> list[Case]:
    """`count` candidates, all different: of every so many one is ill, in turn by each illness."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted((FOLDER / "candidates").glob("*.py"))}
    ills = [name for name in sources if name != "well"]
    found = []
    for number in range(count):
        ill = number % ill_one_in == ill_one_in // 2
        name = ills[number // ill_one_in % len(ills)] if ill else "well"
        expected = _EXPECT.search(sources[name])
        if expected is None:
            raise InfraError(f"{name}.py does not say what to expect")
        candidate = make_candidate(f"{sources[name]}\nNUMBER = {number}\n")
        found.append(Case(candidate=candidate, name=name, expected=Status(expected.group(1))))
    return found


def judged(harness: Harness, all_cases: Sequence[Case], threads: int) -> list[str]:
    """The status of each, in order; what the harness raises is a status of its own."""
    problem = harness.load(FOLDER / "softmax.py")
    harness.baseline(problem)
    done = 0

    def one(case: Case) -> str:
        nonlocal done
        try:
            status = harness.evaluate(problem, case.candidate).status.value
        except InfraError as error:
            say(f"{case.name}: {error}")
            status = Status.INFRA_ERROR.value
        done += 1
        if done % 25 == 0:
            say(f"{done} of {len(all_cases)} judged")
        return status

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, all_cases))


def gpu_used_mib(index: int) -> int | None:
    """Memory in use on a GPU, by whomever; None where nothing tells."""
    query = ["nvidia-smi", f"--id={index}", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return int(subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout.split()[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def descendants() -> set[int]:
    """Processes that this one or its children started and that still run."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(entry.parent.name)] = int(fields[1])
    found, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        grown, found = bool(more), found | more
    return found - {os.getpid()}


def strays(name: str = "sleep") -> list[int]:
    """Processes that a candidate left behind, wherever they were adopted."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().split(b"\0")[:2] == [name.encode(), b"3600"]:
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs all and looks at what is left, as the result file has it."""
    before, running = gpu_used_mib(options.gpu), descendants()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="warpsmith-endurance-") as folder:
        settings = HarnessSettings(
            work_dir=Path(folder),
            gpu=options.gpu,
            require_gpu=options.require_gpu,
            dry_run=True if options.dry_run else None,
            baseline_names=("eager",),
            call_limit_s=CALL_LIMIT_S,
            racing=False,
        )
        with closing(open_harness(settings)) as harness:
            device = harness.device()
            all_cases = cases(options.candidates, options.ill_one_in)
            statuses = judged(harness, all_cases, options.threads)
    seconds = time.monotonic() - started
    time.sleep(min(_SETTLE_S, 1.0 if device.simulated else _SETTLE_S))
    wrong = [
        f"{case.name}: {status}"
        for case, status in zip(all_cases, statuses, strict=True)
        if not case.met_by(status, device.simulated)
    ]
    after = gpu_used_mib(options.gpu)
    return {
        "candidates": len(all_cases),
        "ill": sum(case.name != "well" for case in all_cases),
        "verdicts": len(statuses),
        "wrong": len(wrong),
        "wrong_by_kind": dict(Counter(wrong)),
        "statuses": dict(Counter(f"{c.name}: {s}" for c, s in zip(all_cases, statuses, strict=True))),
        "processes_left": len((descendants() - running) | set(strays())),
        "gpu_memory_left_mib": None if before is None or after is None else after - before,
        "seconds": round(seconds, 1),
        "candidates_per_minute": round(60 * len(statuses) / seconds, 1),
        "gpu": "" if device.simulated else device.name,
        "versions": device.versions,
        "dry_run": device.simulated,
        "commit": provenance.commit(options.commit),
        "command": provenance.command("warpsmith.evals.run_endurance", options.arguments),
    }


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m warpsmith.evals.run_endurance", description="Judges hundreds.")
    parser.add_argument("--candidates", type=int, default=500)
    parser.add_argument("--ill-one-in", type=int, default=ILL_ONE_IN, help="of so many candidates one is ill")
    parser.add_argument("--threads", type=int, default=8, help="evaluations asked for at the same time")
    parser.add_argument("--out", type=Path, default=Path("docs/results/endurance.json"))
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU")
    parser.add_argument("--require-gpu", action="store_true", help="fail where there is no GPU")
    parser.add_argument("--dry-run", action="store_true", help="never use a GPU")
    parser.add_argument("--commit", default="", help="commit to state; by default WARPSMITH_COMMIT or git's")
    options = parser.parse_args(arguments)
    options.arguments = arguments
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        content = measure(options)
    except WarpsmithError as error:
        say(f"run_endurance: {error}")
        return 2
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.out, json.dumps(content, indent=1) + "\n")
    shown = ("candidates", "ill", "wrong", "processes_left", "gpu_memory_left_mib", "candidates_per_minute")
    say(json.dumps({name: content[name] for name in shown}))
    return 1 if content["wrong"] or content["processes_left"] else 0


if __name__ == "__main__":
    sys.exit(main())
