"""The command line, `warpsmith COMMAND ...`. Errors are one line on stderr and exit 2."""

import errno
import functools
import sqlite3
import sys
from collections.abc import Callable, Sequence
from typing import ParamSpec

import typer

from ..state.errors import WarpsmithError
from .commands import batch, doctor, evaluate, failures, library, optimize
from .waiting import Waiting

P = ParamSpec("P")
FAILED, BAD_INPUT, WAITING, INTERRUPTED = 1, 2, 3, 130
LATEST = "latest"
OS_ADVICE = {
    errno.ENOSPC: "free some space or choose another --out",
    errno.ENOENT: "its folder has to exist",
    errno.EISDIR: "give a file in it",
    errno.ENOTDIR: "give a path that does not lead through a file",
    errno.EACCES: "choose a place that you may write to",
}


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """A command whose exit code is its result, or that of its failure; `--debug` lets the traceback through."""

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        try:
            code = command(*args, **options)
        except KeyboardInterrupt as stopped:
            # What a run has to say when it is interrupted, it has said.
            code = complain("interrupted", INTERRUPTED) if type(stopped) is KeyboardInterrupt else INTERRUPTED
        except Waiting as waiting:
            code = complain(one_line(waiting), WAITING)
        except (WarpsmithError, OSError, sqlite3.Error) as error:
            if options.get("debug"):
                raise
            code = complain(one_line(error), BAD_INPUT)
        except Exception as error:
            if options.get("debug"):
                raise
            code = complain(f"internal error: {one_line(error)} (--debug shows where)", FAILED)
        raise typer.Exit(code)

    return run


app = typer.Typer(
    name="warpsmith",
    help="Finds the fastest correct GPU kernel for a PyTorch reference, and proves it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("optimize")(guarded(optimize.optimize_command))
app.command("batch")(guarded(batch.batch_command))
app.command("evaluate")(guarded(evaluate.evaluate_command))
app.command("doctor")(guarded(doctor.doctor_command))
shelf = typer.Typer(name="library", help="Verified kernels that earlier runs have left.", no_args_is_help=True)
shelf.command("list")(guarded(library.list_command))
shelf.command("show")(guarded(library.show_command))
shelf.command("export")(guarded(library.export_command))
app.add_typer(shelf)
app.command("failures")(guarded(failures.failures_command))


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and ends the process with its exit code.

    0 done, 1 failed, 2 bad input, 3 waiting for a kernel, 130 interrupted.
    """
    given = with_resume_value(list(sys.argv[1:] if arguments is None else arguments))
    try:
        code = app(given, prog_name="warpsmith", standalone_mode=False)
    except Exception as error:
        text = usage_fault(error)
        if text is None:
            raise
        code = complain(text, BAD_INPUT) if text else BAD_INPUT
    sys.exit(code or 0)


def usage_fault(error: Exception) -> str | None:
    """One line on a command line that cannot be read: empty where help was shown already, None for other errors.

    Told by its method: typer brings its own copy of click's exceptions, or click's, depending on its version.
    """
    message = getattr(error, "format_message", None)
    if message is None:
        return None
    said = " ".join(message().split()).rstrip(".")
    command = getattr(getattr(error, "ctx", None), "command_path", "warpsmith")
    return f"{said}; `{command} --help` shows what it takes" if said else ""


def complain(text: str, code: int) -> int:
    """Writes the one line that a person gets."""
    sys.stderr.write(f"warpsmith: {text}\n")
    return code


def one_line(error: BaseException) -> str:
    """An exception as one line that names the file where there is one."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        advice = OS_ADVICE.get(error.errno or 0, "")
        return f"{where}{error.strerror}{f'; {advice}' if advice else ''}"
    text = " ".join(str(error).split())
    return text if isinstance(error, WarpsmithError) and text else f"{type(error).__name__}: {text}"


def with_resume_value(arguments: list[str]) -> list[str]:
    """Gives a bare `--resume` the value `latest`: an option or a Python file after it is not its value."""
    filled = []
    for index, argument in enumerate(arguments):
        filled.append(argument)
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        bare = not following or following.startswith("-") or following.endswith(".py")
        if argument == "--resume" and bare:
            filled.append(LATEST)
    return filled
