"""`warpsmith library list|show|export`."""

from pathlib import Path
from typing import Annotated

import typer

from ...state.errors import InvalidInput

LibraryFile = Annotated[Path, typer.Option("--library", help="Library file")]
DEFAULT = Path("runs/library.sqlite")
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback where something fails")]


def list_command(library: LibraryFile = DEFAULT, debug: Debug = False) -> int:
    """Print the verified kernels that runs have left, one a line."""
    from ..library import Library

    entries = Library(library).entries()
    typer.echo(f"{'id':10}{'problem':28}{'language':10}{'speedup':>9}  GPU, date")
    for entry in entries:
        id, language = entry.candidate.id[:8], entry.candidate.language
        where = f"{entry.gpu}, {entry.made[:10]}"
        typer.echo(f"{id:10}{entry.problem[:27]:28}{language:10}{entry.speedup:8.3g}x  {where}")
    return 0


def show_command(
    id: Annotated[str, typer.Argument(help="Id of a kernel, or how it begins")],
    library: LibraryFile = DEFAULT,
    debug: Debug = False,
) -> int:
    """Print what is known of one kernel, and its source."""
    from ..library import Library, entry_json

    entry = Library(library).entry(id)
    typer.echo(entry_json(entry))
    typer.echo(entry.candidate.source)
    return 0


def export_command(
    id: Annotated[str, typer.Argument(help="Id of a kernel, or how it begins")],
    file: Annotated[Path, typer.Argument(help="File to write")],
    library: LibraryFile = DEFAULT,
    debug: Debug = False,
) -> int:
    """Write one kernel to a file."""
    from ..library import Library

    source = Library(library).entry(id).candidate.source
    if file.exists():
        raise InvalidInput(f"{file}: is there already; choose another name")
    file.write_text(source, encoding="utf-8")
    typer.echo(str(file))
    return 0
