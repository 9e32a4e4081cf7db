"""Result files: written whole or not at all, by one process at a time."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ..state.base import Record
from ..state.errors import InvalidInput
from ..tools.whole_file import write_whole

Results = TypeVar("Results", bound=Record)


def commands(*texts: str) -> str:
    """The commands that made a file, each once: several processes may write one, and none alone repeats it."""
    return "; ".join(dict.fromkeys(each for text in texts for each in text.split("; ") if each))


def read_results(path: Path, kind: type[Results]) -> Results | None:
    """What a file holds, None where there is none. Raises InvalidInput where it is another kind of file."""
    if not path.exists():
        return None
    try:
        return kind.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, ValidationError, OSError) as error:
        raise InvalidInput(f"{path}: is not a file of this command; choose another --out") from error


def write_results(path: Path, results: Record) -> None:
    write_whole(path, json.dumps(results.model_dump(), indent=1) + "\n")


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
