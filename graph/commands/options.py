"""Options that several commands share, and how they become settings."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, TypedDict, get_type_hints

import typer

from ...state.errors import InvalidInput

Languages = Annotated[
    str | None,
    typer.Option("--languages", metavar="triton|cuda|both", help="Languages to write kernels in (default: both)"),
]
Budget = Annotated[int | None, typer.Option("--budget", help="Most candidates to evaluate (default: 18)")]
Seconds = Annotated[
    float | None, typer.Option("--seconds", help="Wall time after which no round starts (default: 600)")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the search (default: 0)")]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        metavar="phased|chain|beam|ranked|islands|mcts|sample",
        help="How the search goes on (default: phased)",
    ),
]
Stage = Annotated[
    str | None,
    typer.Option(
        "--stage",
        metavar="one-shot|correctness|profiler|search|hardened",
        help="Parts that are switched on (default: hardened)",
    ),
]
LibraryFile = Annotated[
    Path | None,
    typer.Option(
        "--library", help="File of earlier runs' kernels, or none (default: library.sqlite in the output folder)"
    ),
]
Arch = Annotated[str | None, typer.Option("--arch", help="Target of a dry run (default: sm_90)")]
RequireGpu = Annotated[bool, typer.Option("--require-gpu", help="Fail where there is no GPU, in place of a dry run")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Do not use a GPU: everything is estimated, nothing timed")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for run directories (default: runs)")]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback where something fails")]
BaselinesFile = Annotated[Path | None, typer.Option("--baselines", help="File of cached baseline times")]
Gpu = Annotated[int | None, typer.Option("--gpu", help="Index of the GPU to measure on (default: 0)")]
Model = Annotated[str | None, typer.Option("--model", help="Name of a model at an OpenAI-compatible endpoint")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Address of the endpoint; the key is OPENAI_API_KEY")]
Writer = Annotated[
    str | None,
    typer.Option(
        "--writer",
        metavar="auto|offline|hybrid|llm|human",
        help="Who writes (default: auto, which is hybrid with a model, else offline)",
    ),
]
ModelFor = Annotated[
    list[str] | None,
    typer.Option(
        "--model-for", metavar="ROLE=MODEL", help="For planner, triton_writer, cuda_writer, repairer; repeatable"
    ),
]
Price = Annotated[
    list[str] | None,
    typer.Option("--price", metavar="MODEL=IN,OUT", help="Price per million prompt and completion tokens; repeatable"),
]
Kernel = Annotated[
    list[Path] | None, typer.Option("--kernel", help="With --resume: a file for a run that waits for one, or `done`")
]
Tokens = Annotated[int | None, typer.Option("--tokens", help="Most tokens to spend on models (default: no limit)")]
Money = Annotated[
    float | None, typer.Option("--money", help="Most money to spend on models; needs prices (default: no limit)")
]
Record = Annotated[Path | None, typer.Option("--record", help="Record every answer of the harness in this file")]
Replay = Annotated[Path | None, typer.Option("--replay", help="Answer from a recording; needs no GPU")]
Pace = Annotated[
    float | None, typer.Option("--pace", help="Share of recorded seconds that a replay waits (default: 0)")
]
LockClocks = Annotated[
    bool, typer.Option("--lock-clocks", help="Fix the card's clocks meanwhile; needs an administrator and a free card")
]


class RunOptions(TypedDict):
    """What `optimize` and `batch` take alike, in the order of their help."""

    languages: Languages
    budget: Budget
    seconds: Seconds
    seed: Seed
    strategy: Strategy
    stage: Stage
    writer: Writer
    model: Model
    base_url: BaseUrl
    model_for: ModelFor
    price: Price
    tokens: Tokens
    money: Money
    arch: Arch
    require_gpu: RequireGpu
    dry_run: DryRun
    out: Out
    library: LibraryFile
    baselines: BaselinesFile
    gpu: Gpu
    record: Record
    replay: Replay
    debug: Debug


SWITCHES = ("require_gpu", "dry_run", "debug")


def with_run_options(command: Callable[..., int]) -> Callable[..., int]:
    """Shows typer the run options in place of a command's `**given`, after its own parameters."""
    own = [each for each in inspect.signature(command).parameters.values() if each.kind is not each.VAR_KEYWORD]
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False if name in SWITCHES else None, annotation=hint
        )
        for name, hint in get_type_hints(RunOptions, include_extras=True).items()
    ]
    parameters = [*own, *shared]
    command.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": int}
    command.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    return command


def run_settings(given: RunOptions) -> dict[str, Any]:
    """Run options as settings."""
    options = dict[str, Any](given)
    del options["debug"]
    recording = given["record"] or given["replay"]
    return settings_of(
        models=models_of(options.pop("model_for")),
        prices=prices_of(options.pop("price")),
        library=library_of(options.pop("library"), given["out"], recording),
        **options,
    )


def clocks(locked: bool, gpu: int | None) -> AbstractContextManager[object]:
    """Fixed clocks where they are asked for, given back in the end."""
    if not locked:
        return nullcontext()
    from ...tools.clock_lock import locked_clocks

    return locked_clocks(gpu or 0)


def models_of(given: list[str] | None) -> dict[str, str] | None:
    """`ROLE=MODEL` options as the setting. Raises InvalidInput for another form."""
    pairs = [option.partition("=") for option in given or ()]
    for role, equals, model in pairs:
        if not (role and equals and model):
            raise InvalidInput(f"--model-for {role}{equals}{model}: give ROLE=MODEL, as planner=small-model")
    return {role: model for role, _, model in pairs} or None


def prices_of(given: list[str] | None) -> dict[str, dict[str, float]] | None:
    """`MODEL=IN,OUT` options as the setting. Raises InvalidInput for another form."""
    found = {}
    for option in given or ():
        model, _, numbers = option.rpartition("=")
        try:
            prompt, completion = (float(number) for number in numbers.split(","))
        except ValueError:
            raise InvalidInput(f"--price {option}: give MODEL=IN,OUT per million tokens, as my-model=1.5,6") from None
        found[model] = {"prompt": prompt, "completion": completion}
    return found or None


def library_of(given: Path | None, out: Path | None, recording: object) -> Path | None:
    """The library of a run: by default none for a recording, whose answers must not depend on what ran before."""
    if given == Path("none") or (recording is not None and given is None):
        return None
    return given or (out or Path("runs")) / "library.sqlite"


def settings_of(*, dry_run: bool, require_gpu: bool, **given: Any) -> dict[str, Any]:
    """What was given on the command line as settings; what was not is left to the defaults."""
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
    settings = {name: value for name, value in settings.items() if value is not None}
    if dry_run:
        settings["dry_run"] = True
    if require_gpu:
        settings["require_gpu"] = True
    return settings
