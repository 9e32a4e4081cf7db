"""`warpsmith batch DIR`."""

from pathlib import Path
from typing import Annotated, Unpack

import typer

from . import options


@options.with_run_options
def batch_command(
    folder: Annotated[Path, typer.Argument(help="Folder of problem files")], **given: Unpack[options.RunOptions]
) -> int:
    """Optimise every problem of a folder; what is done already is skipped."""
    from .. import api
    from ..batch import optimize_batch
    from ..progress import listening
    from ..services import Collaborators

    settings = options.run_settings(given)
    with listening() as progress:
        brought = Collaborators(listeners=(progress.hear,))
        try:
            done = optimize_batch(folder, given=brought, on_row=progress.row, **settings)
        except api.Interrupted as stopped:
            progress.interrupted(stopped.run_dir, stopped.result)
            raise
        progress.batch_finished(done)
    return 1 if done.failed else 0
