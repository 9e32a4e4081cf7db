"""`warpsmith failures RUN...`: what failed, by template, slots and error."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ...state.errors import InvalidInput
from ...state.evaluation import Status
from ...state.failures import FailureGroup, Failures
from ...state.wording import counted
from . import options

KINDS: dict[str, frozenset[Status]] = {
    "compile": frozenset((Status.COMPILE_ERROR,)),
    "crash": frozenset((Status.RUNTIME_ERROR, Status.RESOURCE, Status.UNSAFE)),
    "timeout": frozenset((Status.TIMEOUT,)),
    "wrong": frozenset(status for status in Status if status.startswith("incorrect") or status == "nondeterministic"),
}


def failures_command(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or folders that hold some", metavar="RUN...")],
    kind: Annotated[
        str, typer.Option("--kind", metavar="compile|crash|timeout|wrong", help="Only failures of this kind")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="All counts as one JSON line on stdout")] = False,
    debug: options.Debug = False,
) -> int:
    """Count what failed in runs, by template, slots and error."""
    from ..failures import count_failures, run_directories

    if kind and kind not in KINDS:
        raise InvalidInput(f"--kind {kind}: give one of {', '.join(KINDS)}")
    found = count_failures(run_directories(runs), KINDS[kind] if kind else None)
    typer.echo(found.model_dump_json() if json else "\n".join(table_lines(found)))
    return 0


def table_lines(found: Failures) -> Iterator[str]:
    """A summary, then a line a group with the slots and the first file under it."""
    kinds = ", ".join(f"{count} {status}" for status, count in found.statuses.items())
    candidates, runs = counted(found.tried, "candidate"), counted(found.runs, "run")
    yield f"{found.failed} of {candidates} in {runs} failed{f': {kinds}' if kinds else ''}"
    if not found.groups:
        return
    width = max(len("template"), *(len(group.template) for group in found.groups))
    status_width = max(len(group.status) for group in found.groups)
    yield f"{'failed':>6} {'tried':>6}  {'template':{width}}  {'status':{status_width}}  error"
    for group in found.groups:
        head = f"{group.count:6} {group.tried:6}  {group.template:{width}}  {group.status.value:{status_width}}  "
        yield head + (group.example if group.count == 1 else group.error)
        yield from (f"{'':15}{line}" for line in _details(group))


def _details(group: FailureGroup) -> Iterator[str]:
    if group.shared_slots:
        yield "all with " + ", ".join(f"{name}={value}" for name, value in group.shared_slots.items())
    yield f"first in {group.sources[0]}"
