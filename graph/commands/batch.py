"""`warpsmith batch DIR`."""

from pathlib import Path
from typing import Annotated

import typer

from . import options


def batch_command(  # noqa: PLR0913 - one parameter an option is how typer declares them
    folder: Annotated[Path, typer.Argument(help="Folder of problem files")],
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
    baselines: options.BaselinesFile = None,
    gpu: options.Gpu = None,
    record: options.Record = None,
    replay: options.Replay = None,
    debug: options.Debug = False,
) -> int:
    """Optimise every problem of a folder; what is done already is skipped."""
    from .. import api
    from ..batch import optimize_batch
    from ..progress import listening
    from ..services import Collaborators

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
    )
    with listening() as progress:
        given = Collaborators(listeners=(progress.hear,))
        try:
            done = optimize_batch(folder, given=given, on_row=progress.row, **settings)
        except api.Interrupted as stopped:
            progress.interrupted(stopped.run_dir, stopped.result)
            raise
        progress.batch_finished(done)
    return 1 if done.failed else 0
