"""Records the counters of the kernels with a known bottleneck, on a GPU, and says what the rules make of them.

    python -m warpsmith.evals.record_diagnosis --out evals/diagnosis/counters.json --require-gpu

What the file has of unchanged kernels stays (`--again` records all anew), and it is written after every kernel, so a
call that was cut off goes on where it stopped. About 11 s a kernel on an H200.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ..state.errors import InvalidInput, WarpsmithError
from ..state.evaluation import Status
from ..tools.harness import Harness
from ..tools.harness_settings import HarnessSettings
from ..tools.local import open_harness
from ..tools.whole_file import write_whole
from ..tools.work import floor_work
from . import provenance
from .bench_command import say
from .diagnosis_set import COUNTERS, KnownKernel, Recorded, Recording, collect, load


def record(harness: Harness, kernel: KnownKernel) -> Recorded:
    """Judges and profiles one kernel."""
    problem = harness.load(kernel.problem_path)
    candidate = kernel.candidate()
    evaluation = harness.evaluate(problem, candidate, "full")  # The quick tier gives up on what is slow, as many are.
    return Recorded(
        name=kernel.name,
        source_id=kernel.source_id,
        product_flops=sum(floor_work(harness.lower(problem)).matmul_flops.values()),
        evaluation=evaluation,
        profile=harness.profile(problem, candidate),
    )


def usable(recorded: Recorded | None, kernel: KnownKernel) -> bool:
    """Whether a recording is of this code, passed and has counters."""
    if recorded is None or recorded.source_id != kernel.source_id:
        return False
    return recorded.evaluation.status is Status.PASSED and bool(recorded.profile.kernels)


def known(options: argparse.Namespace) -> dict[str, Recorded]:
    """What the file has already; nothing where there is none yet, or all is to be recorded anew."""
    if options.again or not options.out.exists():
        return {}
    return {recorded.name: recorded for recorded in load(options.out).kernels}


def record_all(harness: Harness, kernels: Sequence[KnownKernel], options: argparse.Namespace) -> bool:
    """Records what is missing, kernel by kernel. True if every one has the class that it was built for."""
    device = harness.device()
    found, right = known(options), True
    started = time.monotonic()
    for kernel in kernels:
        if not usable(found.get(kernel.name), kernel) and time.monotonic() - started < options.seconds:
            found[kernel.name] = record(harness, kernel)
            recording = Recording(
                gpu=device.name,
                versions=device.versions,
                device=device,
                commit=provenance.commit(options.commit),
                command=provenance.command("warpsmith.evals.record_diagnosis", options.arguments),
                kernels=tuple(found[name] for name in sorted(found)),
            )
            options.out.parent.mkdir(parents=True, exist_ok=True)
            write_whole(options.out, recording.model_dump_json(indent=1) + "\n")
        recorded = found.get(kernel.name)
        if recorded is None:
            say(f"  left {kernel.name}: no time; run again to go on")
            right = False
            continue
        diagnosed = recorded.diagnosed(device)
        said = diagnosed.text or f"{recorded.evaluation.status}: {recorded.evaluation.message or 'no finding'}"
        good = usable(recorded, kernel) and diagnosed.bottleneck == kernel.expect
        right = right and good
        say(f"{'right' if good else 'WRONG'} {kernel.name}: {said} {recorded.profile.reason}".rstrip())
    return right


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m warpsmith.evals.record_diagnosis",
        description="Records the counters of kernels with a known bottleneck.",
    )
    parser.add_argument("--out", type=Path, default=COUNTERS)
    parser.add_argument("--only", default="", help="kernels that have this in their name")
    parser.add_argument("--again", action="store_true", help="record what the file has, too")
    parser.add_argument("--seconds", type=float, default=540.0, help="begin no kernel after this time")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--require-gpu", action="store_true")
    parser.add_argument("--commit", default="")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """0 if all have the class that they were built for, 1 if not, 2 for wrong input."""
    options = parse(arguments)
    options.arguments = arguments
    try:
        kernels = collect(options.only)
        with tempfile.TemporaryDirectory() as folder:
            settings = HarnessSettings(
                work_dir=Path(folder),
                gpu=options.gpu,
                require_gpu=options.require_gpu,
                baseline_names=("eager",),
                evidence_tiers=(),  # Sanitizers say nothing about speed, and take most of the time.
            )
            Path(folder).chmod(0o711)
            with closing(open_harness(settings)) as harness:
                if harness.device().simulated:
                    raise InvalidInput("no GPU: counters are recorded on one")
                right = record_all(harness, kernels, options)
    except WarpsmithError as error:
        say(f"record_diagnosis: {error}")
        return 2
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
