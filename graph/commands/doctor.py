"""`warpsmith doctor`: what is here, what is missing, and what to do about it."""

import typer

from . import options


def doctor_command(
    require_gpu: options.RequireGpu = False,
    out: options.Out = None,
    gpu: options.Gpu = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    debug: options.Debug = False,
) -> int:
    """Print what this machine has and what to do about what it lacks; with --model, what its endpoint supports."""
    from pathlib import Path

    from ...state.errors import InvalidInput
    from ..doctor import checks, sheet_checks

    if base_url and not model:
        raise InvalidInput("--base-url alone tries nothing; name a model of that endpoint with --model")
    found = checks(out or Path("runs"))
    settings = options.settings_of(dry_run=False, require_gpu=require_gpu, out=out, gpu=gpu)
    found += sheet_checks(settings)
    if model:
        from ..model_doctor import model_checks

        found += model_checks(model, base_url)
    width = max(len(check.name) for check in found)
    for check in found:
        typer.echo(f"{check.mark} {check.name:{width}}  {check.found}")
        if check.advice:
            typer.echo(f"  {'':{width}}  -> {check.advice}")
    return 0 if all(check.fine or not check.needed for check in found) else 1
