"""A lock that dies with whoever holds it, so that none is ever left behind."""

import fcntl
from pathlib import Path
from typing import IO


def hold(path: Path) -> IO[bytes] | None:
    """Makes a file and holds its lock until the result is closed or the process ends; None where another holds it.

    Raises OSError where the file cannot be made.
    """
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
