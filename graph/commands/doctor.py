"""`warpsmith doctor`: what is here, what is missing, and what to do about it."""

import typer

from . import options


def doctor_command(
    require_gpu: options.RequireGpu = False,
    out: options.Out = None,
    gpu: options.Gpu = None,
    debug: options.Debug = False,
) -> int:
    """Print what this machine has and what to do about what it lacks."""
    from pathlib import Path

    from ..doctor import checks, sheet_checks

    found = checks(out or Path("runs"))
    settings = options.settings_of(dry_run=False, require_gpu=require_gpu, out=out, gpu=gpu)
    found += sheet_checks(settings)
    width = max(len(check.name) for check in found)
    for check in found:
        typer.echo(f"{check.mark} {check.name:{width}}  {check.found}")
        if check.advice:
            typer.echo(f"  {'':{width}}  -> {check.advice}")
    return 0 if all(check.fine or not check.needed for check in found) else 1
