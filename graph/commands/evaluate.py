"""`warpsmith evaluate CANDIDATE --problem FILE`."""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from ...state.errors import InvalidInput
from . import options

_TIERS = "full: more draws, sanitizers, fresh processes; record: also every sanitizer and the profiler's durations"


def evaluate_command(  # noqa: PLR0913 - one parameter an option is how typer declares them
    candidate: Annotated[Path, typer.Argument(help="Python file that defines ModelNew")],
    problem: Annotated[Path, typer.Option("--problem", help="Problem file to judge it on")],
    tier: Annotated[str, typer.Option("--tier", metavar="quick|full|record", help=_TIERS)] = "full",
    json: Annotated[bool, typer.Option("--json", help="The whole evaluation as one JSON line on stdout")] = False,
    arch: options.Arch = None,
    require_gpu: options.RequireGpu = False,
    dry_run: options.DryRun = False,
    out: options.Out = None,
    baselines: options.BaselinesFile = None,
    gpu: options.Gpu = None,
    lock_clocks: options.LockClocks = False,
    replay: options.Replay = None,
    debug: options.Debug = False,
) -> int:
    """Judge one kernel: does it compile, is it correct, how fast is it."""
    if tier not in ("quick", "full", "record"):
        raise InvalidInput(f"--tier {tier}: give quick, full or record")
    settings = options.settings_of(
        dry_run=dry_run, require_gpu=require_gpu, arch=arch, out=out, baselines=baselines, gpu=gpu, replay=replay
    )
    with options.clocks(lock_clocks, gpu):
        return judge(candidate, problem, tier, settings, as_json=json)


def judge(candidate: Path, problem: Path, tier: Any, settings: dict[str, Any], *, as_json: bool) -> int:
    """Opens a harness, judges, prints. Exit code 0 if it passed, or is correct as far as a dry run can tell."""
    from ...state.candidate import make_candidate
    from ...state.evaluation import Status
    from ..services import open_harness_for
    from ..settings import check_problem_file, make_context
    from ..verdict import verdict_lines

    check_problem_file(problem)
    try:
        source = candidate.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{candidate}: cannot be read; give a Python file that defines ModelNew") from error
    with closing(open_harness_for(make_context(settings), evidence_tiers=("full", "record"))) as harness:
        dry = harness.device().simulated
        loaded = harness.load(problem)
        harness.vet(loaded)
        harness.baseline(loaded)
        evaluation = harness.evaluate(loaded, make_candidate(source), tier)
    lines = [line.replace("candidate.py", candidate.name) for line in verdict_lines(evaluation)]
    if dry and tier != "quick":
        lines.append(f"  a dry run has one tier: --tier {tier} needs a GPU")
    typer.echo(evaluation.model_dump_json() if as_json else "\n".join(lines))
    passed = evaluation.status is Status.PASSED or (dry and evaluation.status is Status.UNVERIFIED)
    return 0 if passed else 1
