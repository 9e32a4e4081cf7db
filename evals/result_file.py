"""Result files: written whole or not at all, by one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..state.errors import InvalidInput


def commands(*texts: str) -> str:
    """The commands that made a file, each once: several processes may write one, and none alone repeats it."""
    return "; ".join(dict.fromkeys(each for text in texts for each in text.split("; ") if each))


def write_whole(path: Path, text: str) -> None:
    """Replaces a file in one step: readers see the old text or the new one."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the folder's lock, so that no lock file is left behind. Raises InvalidInput where there can be no file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be written ({error.strerror}); choose another --out") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
