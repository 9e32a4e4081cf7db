"""Files that grow by whole lines and outlive the process that was writing one."""

import os
from pathlib import Path

from .whole_file import naming


def append_line(path: Path, line: str) -> None:
    """Appends a line that is on the disk when this returns; a half line that a killed process left is ended first."""
    with naming(path), path.open("ab+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())
