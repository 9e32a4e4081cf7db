"""Measures the harness itself: is its clock fair, and how many candidates does it judge a minute?

    python -m warpsmith.evals.measure_harness --out docs/results/harness-h200.json --require-gpu

- Identity: the reference handed in as a candidate, timed against itself. The ratio must be 1.
- Candidates per minute: the writers' proposals, compiled while others are measured, from an empty cache.
- Seconds per evaluation: the same candidates once more, one after the other, with the cache full; and what each defence
  takes of it.
- Flips: from a run of the museum's honest controls, ten verdicts each (`--flips-from`).
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from ..graph.bench import Bench
from ..state.brief import Brief
from ..state.candidate import Candidate, Language, make_candidate, reference_as_candidate
from ..state.errors import InfraError, WarpsmithError
from ..state.evaluation import Evaluation, Status
from ..state.problem import Problem
from ..tools.harness import Harness
from ..tools.whole_file import write_whole
from . import provenance
from .bench_command import say
from .museum_report import Row
from .suite import select

LANGUAGES: tuple[Language, ...] = ("triton", "cuda")


def identity(problem: Problem, run: int) -> Candidate:
    """The reference as a candidate; `run` makes it a new one, so that no cached verdict answers."""
    candidate = reference_as_candidate(problem.source)
    return make_candidate(f"{candidate.source}\nRUN = {run}\n", "torch", origin="human", note=candidate.note)


def identity_ratios(harness: Harness, problem: Problem, runs: int) -> list[float]:
    """Baseline time over the time of the same code as a candidate, once a run. Raises InfraError if it is refused."""
    ratios = []
    for run in range(runs):
        evaluation = harness.evaluate(problem, identity(problem, run))
        if evaluation.status is not Status.PASSED or evaluation.primary is None:
            raise InfraError(f"{problem.name}: the reference itself is {evaluation.status}: {evaluation.message}")
        ratios.append(evaluation.primary.speedup)
    return ratios


def proposals(harness: Harness, problem: Problem, language: Language, n: int) -> list[Candidate]:
    """What the offline writer proposes first; the CUDA writer may propose fewer."""
    from ..sub_agents.cuda_writer import CudaWriter
    from ..sub_agents.planner import OfflinePlanner
    from ..sub_agents.triton_writer import TritonWriter

    device = harness.device()
    plan = OfflinePlanner().plan(problem, harness.lower(problem), device)
    brief = Brief(problem=problem, device=device, plan=plan, language=language, directive="explore")
    return (TritonWriter() if language == "triton" else CudaWriter()).propose(brief, n)


def one_by_one(harness: Harness, problem: Problem, candidates: Sequence[Candidate]) -> dict[str, Any]:
    """Medians over evaluations, one after the other: wall time, wall time besides the kernel's own, and each stage."""
    found = [harness.evaluate(problem, candidate) for candidate in candidates]
    names = sorted({name for evaluation in found for name in evaluation.stage_seconds})
    stages = {name: median(evaluation.stage_seconds.get(name, 0.0) for evaluation in found) for name in names}
    return {
        "seconds": median(evaluation.seconds for evaluation in found),
        "besides_own_run_s": median(evaluation.seconds - own_run_s(evaluation) for evaluation in found),
        "stages": {"process and sandbox": median(evaluation.seconds - top_level_s(evaluation) for evaluation in found)}
        | stages,
    }


def own_run_s(evaluation: Evaluation) -> float:
    """What the candidate's timed calls took on the GPU; warm-ups and checks are few beside them."""
    return sum(timing.candidate.count * timing.candidate.median_ms for timing in evaluation.timings) / 1e3


def top_level_s(evaluation: Evaluation) -> float:
    """Seconds in the judge's stages, their parts not counted twice."""
    return sum(seconds for name, seconds in evaluation.stage_seconds.items() if ": " not in name)


def per_minute(harness: Harness, problem: Problem, candidates: Sequence[Candidate], threads: int) -> float:
    """Candidates judged a minute when several compile at the same time."""
    started = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda candidate: harness.evaluate(problem, candidate), candidates))
    return 60 * len(candidates) / (time.monotonic() - started)


def throughput(options: argparse.Namespace, language: Language) -> dict[str, Any]:
    """Rates for one language, on a harness of its own: the first from an empty cache."""
    path = select(options.problems)[0].path
    with tempfile.TemporaryDirectory() as folder, closing(open_bench(options, folder)) as bench:
        harness = bench.harness
        problem = harness.load(path)
        candidates = proposals(harness, problem, language, options.candidates)
        harness.baseline(problem)  # Opening the problem is not what is measured.
        rate = per_minute(harness, problem, candidates, options.threads)
        harness.renew(problem)  # What is compiled stays compiled; no verdict is remembered.
        cached = one_by_one(harness, problem, candidates)
    return {"per_minute": rate, "cached": cached, "candidates": len(candidates)}


def flips(museum_file: Path | None) -> dict[str, Any] | None:
    """How many honest controls got different verdicts in the repeats of a run of the museum."""
    if museum_file is None:
        return None
    found = json.loads(museum_file.read_text())
    honest = [Row.model_validate(row) for row in found["rows"] if row["kind"] == "honest"]
    about = {name: found[name] for name in ("honest_total", "honest_accepted", "commit", "command")}
    return {
        "flips": sum(row.flipped for row in honest),
        "repeat": min((len(row.verdicts) for row in honest), default=0),
        **about,
    }


def open_bench(options: argparse.Namespace, folder: str) -> Bench:
    baselines = options.scratch / "baselines.json"
    return Bench(out=folder, gpu=options.gpu, require_gpu=options.require_gpu, baselines=str(baselines))


Keep = Callable[[dict[str, Any]], None]


def measure(options: argparse.Namespace, keep: Keep) -> None:
    """Hands over what the result file has, again after every part: one that is cut off keeps what it measured.

    Candidates are judged beside the best baseline, as in any run.
    """
    with tempfile.TemporaryDirectory() as folder, closing(open_bench(options, folder)) as bench:
        device = bench.harness.device()
        found = identities(options, bench.harness)
    found |= {
        "flips": flips(options.flips_from),
        "gpu": device.name,
        "versions": device.versions,
        "sandbox": device.sandbox,
        "complete": options.no_rates,
    }
    keep(found)
    by_language: dict[Language, dict[str, Any]] = {}
    for language in () if options.no_rates else LANGUAGES:
        by_language[language] = throughput(options, language)
        say(f"{language}: {by_language[language]}")
        complete = len(by_language) == len(LANGUAGES)
        keep(found | rates(by_language, select(options.problems)[0].name) | {"complete": complete})


def identities(options: argparse.Namespace, harness: Harness) -> dict[str, Any]:
    """Ratios of the reference to itself, over all runs and by problem."""
    ratios: dict[str, list[float]] = {}
    for entry in select(options.problems):
        own = ratios[entry.name] = identity_ratios(harness, harness.load(entry.path), options.runs)
        say(f"identity {entry.name}: {min(own):.4f} to {max(own):.4f}")
    every = [ratio for some in ratios.values() for ratio in some]
    return {
        "identity_ratio": round(median(every), 5),
        "identity_low": round(min(every), 5),
        "identity_high": round(max(every), 5),
        "identity_runs": options.runs,
        "identity_by_problem": {name: round(median(some), 5) for name, some in ratios.items()},
    }


def rates(found: dict[Language, dict[str, Any]], problem: str) -> dict[str, Any]:
    """What evaluations take on a problem, by language."""
    cached = {language: each["cached"] for language, each in found.items()}
    return {
        "seconds_per_cached_evaluation": {name: round(each["seconds"], 3) for name, each in cached.items()},
        "quick_median_s": {name: round(each["besides_own_run_s"], 3) for name, each in cached.items()},
        "cost_per_defence_s": {
            name: {stage: round(cost, 4) for stage, cost in each["stages"].items()} for name, each in cached.items()
        },
        "candidates_per_minute": {name: round(each["per_minute"], 1) for name, each in found.items()},
        "candidates": {name: each["candidates"] for name, each in found.items()},
        "rates_on": problem,
    }


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m warpsmith.evals.measure_harness", description="Measures the harness."
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results/harness.json"))
    parser.add_argument(
        "--problems",
        default="rms_norm_residual,bias_gelu_tanh,linear_fp32",
        help="problems for the identity ratio; rates are taken on the first",
    )
    parser.add_argument("--runs", type=int, default=20, help="identity evaluations per problem")
    parser.add_argument("--no-rates", action="store_true", help="identity ratios only")
    parser.add_argument("--candidates", type=int, default=60, help="candidates per rate")
    parser.add_argument("--threads", type=int, default=6, help="evaluations asked for at the same time")
    parser.add_argument("--flips-from", type=Path, help="result file of the museum's honest controls")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--require-gpu", action="store_true")
    parser.add_argument("--commit", default="")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    about = {
        "commit": provenance.commit(options.commit),
        "command": provenance.command("warpsmith.evals.measure_harness", arguments),
    }

    def keep(found: dict[str, Any]) -> None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(options.out, json.dumps(found | about, indent=1) + "\n")
        say(json.dumps({name: found.get(name) for name in ("identity_ratio", "candidates_per_minute")}))

    try:
        with tempfile.TemporaryDirectory() as scratch:
            options.scratch = Path(scratch)
            measure(options, keep)
    except WarpsmithError as error:
        say(f"measure_harness: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
