"""Settings of a run as they are given, and what can be found wrong with them before anything is started."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..state.channels import Context
from ..state.errors import InvalidInput, InvalidProblem
from .library import Library
from .search import strategy_named
from .services import Collaborators


def make_context(settings: dict[str, Any]) -> Context:
    """Settings as a Context. Raises InvalidInput that names the first one that is wrong, or two that contradict."""
    try:
        context = Context.model_validate(settings)
    except ValidationError as error:
        raise InvalidInput(f"{setting_fault(error)} (got {error.errors()[0]['input']!r})") from error
    if context.dry_run and context.require_gpu:
        raise InvalidInput("--dry-run and --require-gpu exclude each other; give one of them")
    return context


def setting_fault(error: ValidationError) -> str:
    """The first fault in a few words for a person. Values are left out: an address may hold a secret."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if part != "[key]") or "models"
    match first["type"]:
        case "extra_forbidden":
            said = "there is no such setting"
        case "string_pattern_mismatch":
            said = f"write it as the default is written, {Context.model_fields[name].default}"
        case _:
            said = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"setting {name}: {said}"


def check_settings(context: Context, given: Collaborators | None) -> None:
    """Raises InvalidInput for a strategy, library or model that cannot be used."""
    if given is None or given.strategy is None:
        strategy_named(context.strategy)
    if context.library is not None:
        Library(Path(context.library)).check()
    model = given.model if given else None
    if context.model is None and model is None and (context.base_url or context.models):
        option = "--base-url" if context.base_url else "--model-for"
        raise InvalidInput(f"{option} does nothing without a model; name one with --model")
    limits = {"--tokens": context.tokens, "--money": context.money, "--price": context.prices or None}
    idle = next((option for option, value in limits.items() if value is not None), None)
    if idle and context.model is None and model is None and not context.models:
        raise InvalidInput(f"{idle} does nothing without a model; name one with --model")
    if context.model is not None or context.writer != "auto":
        from .models import check_models

        check_models(context, model)


def check_problem_file(path: Path) -> None:
    """Raises InvalidProblem where there is no file."""
    if path.is_dir():
        raise InvalidProblem(f"{path}: is a folder; give one problem file, or the folder to `warpsmith batch`")
    if not path.is_file():
        raise InvalidProblem(f"{path}: no such file; give the path of a Python file with a PyTorch reference")
