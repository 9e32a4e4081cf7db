"""`warpsmith optimize FILE`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from . import options


def optimize_command(  # noqa: PLR0913 - one parameter an option is how typer declares them
    file: Annotated[Path, typer.Argument(help="Problem file: Model, get_inputs, get_init_inputs")],
    languages: options.Languages = None,
    budget: options.Budget = None,
    seconds: options.Seconds = None,
    seed: options.Seed = None,
    strategy: options.Strategy = None,
    stage: options.Stage = None,
    writer: options.Writer = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    model_for: options.ModelFor = None,
    price: options.Price = None,
    tokens: options.Tokens = None,
    money: options.Money = None,
    arch: options.Arch = None,
    require_gpu: options.RequireGpu = False,
    dry_run: options.DryRun = False,
    out: options.Out = None,
    library: options.LibraryFile = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="[RUN]", help="Go on with a run directory, or the latest run")
    ] = None,
    kernel: options.Kernel = None,
    baselines: options.BaselinesFile = None,
    gpu: options.Gpu = None,
    lock_clocks: options.LockClocks = False,
    record: options.Record = None,
    replay: options.Replay = None,
    pace: options.Pace = None,
    debug: options.Debug = False,
) -> int:
    """Find the fastest correct kernel for one problem."""
    from .. import api
    from ..progress import listening
    from ..run_directory import latest_run_directory
    from ..services import Collaborators
    from ..waiting import Waiting, at_terminal

    settings = options.settings_of(
        dry_run=dry_run,
        require_gpu=require_gpu,
        languages=languages,
        budget=budget,
        seconds=seconds,
        seed=seed,
        strategy=strategy,
        stage=stage,
        writer=writer,
        model=model,
        base_url=base_url,
        models=options.models_of(model_for),
        prices=options.prices_of(price),
        tokens=tokens,
        money=money,
        arch=arch,
        out=out,
        library=options.library_of(library, out, record or replay),
        baselines=baselines,
        gpu=gpu,
        record=record,
        replay=replay,
        pace=pace,
    )
    with options.clocks(lock_clocks, gpu), listening() as progress:
        given = Collaborators(listeners=(progress.hear,), person=at_terminal if sys.stdin.isatty() else None)
        try:
            if resume is None:
                result = api.optimize(file, given=given, **settings)
            else:
                run = latest_run_directory(out or Path("runs"), file) if resume == "latest" else Path(resume)
                result = api.resume(run, given=given, kernels=kernel or (), **settings)
        except Waiting as waiting:
            progress.hear({"event": "waiting", "run_dir": str(waiting.run_dir), "questions": waiting.questions})
            raise
        except api.Interrupted as stopped:
            progress.interrupted(stopped.run_dir, stopped.result)
            raise
        progress.finished(result)
    return 0 if result.outcome != "nothing" else 1
