"""`warpsmith optimize FILE`."""

import sys
from pathlib import Path
from typing import Annotated, Unpack

import typer

from ...state.errors import InvalidInput
from . import options


@options.with_run_options
def optimize_command(
    file: Annotated[Path, typer.Argument(help="Problem file: Model, get_inputs, get_init_inputs")],
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="[RUN]", help="Go on with a run directory, or the latest run")
    ] = None,
    kernel: options.Kernel = None,
    lock_clocks: options.LockClocks = False,
    pace: options.Pace = None,
    **given: Unpack[options.RunOptions],
) -> int:
    """Find the fastest correct kernel for one problem."""
    from .. import api
    from ..progress import listening
    from ..run_directory import latest_run_directory
    from ..services import Collaborators
    from ..waiting import Waiting, at_terminal

    if kernel and resume is None:
        raise InvalidInput("--kernel answers a run that waits; name that run with --resume")
    settings = options.run_settings(given)
    if pace is not None:
        settings["pace"] = pace
    ignored: tuple[str, ...] = ()
    with options.clocks(lock_clocks, given["gpu"]), listening() as progress:
        brought = Collaborators(listeners=(progress.hear,), person=at_terminal if sys.stdin.isatty() else None)
        try:
            if resume is None:
                result = api.optimize(file, given=brought, **settings)
            else:
                run = latest_run_directory(given["out"] or Path("runs"), file) if resume == "latest" else Path(resume)
                result = api.resume(run, given=brought, kernels=kernel or (), problem=file, **settings)
                ignored = api.ignored_changes(run, settings)
        except Waiting as waiting:
            progress.hear({"event": "waiting", "run_dir": str(waiting.run_dir), "questions": waiting.questions})
            raise
        except api.Interrupted as stopped:
            progress.interrupted(stopped.run_dir, stopped.result)
            raise
        progress.finished(result)
    if ignored:
        without = ", ".join(f"--{name.replace('_', '-')}" for name in ignored)
        said = f"{result.run_dir}: was finished already, without {without}; start a new run for that"
        sys.stderr.write(f"warpsmith: {said}\n")
    return 0 if result.outcome != "nothing" else 1
