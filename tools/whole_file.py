"""Files that are whole or not there at all, whoever else writes or reads them at that moment."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


def write_whole(path: Path, text: str) -> Path:
    """Writes or replaces a text file. Raises OSError that names it; what was there before is left then, nothing else.

    The part that is written first has a name that no other process or thread uses.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}-{uuid4().hex[:8]}.part")
    with naming(path):
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    return path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Has an OSError name the file that was meant: a full disk names none, and a part's name says nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
