"""Scratch folders after hostile code had them: copied and removed without following, reading or walking into traps.

What lies in one may be links to anywhere, pipes that block a reader, folders thousands deep, or more files than a disk
holds. So only regular files in a shallow tree are ever copied, and a removal never gives up.
"""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

NOBODY = 65534
"""Who a boxed process is where its harness runs as root and gives it no user of its own."""
_MOST_DEPTH = 24
_MOST_FILES = 20_000
_MOST_BYTES = 1 << 30
_REMOVE_S = 60.0


def write_source(folder: Path, source: str) -> Path:
    """The candidate's file in its folder, in place of whatever bears its name: never written through a link."""
    path = folder / "candidate.py"
    remove(path)
    path.write_text(source, encoding="utf-8")
    return path


def give_away(folder: Path, user: int = NOBODY) -> None:
    """Makes a folder and all in it the boxed process's own. Links keep what they point at."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


def copy_files(source: Path, target: Path) -> None:
    """Copies regular files; links, pipes, sockets and what is beyond a sane size or depth stay behind."""
    files = total_bytes = 0
    waiting = [(source, target, 0)]
    while waiting:
        folder, copy, depth = waiting.pop()
        copy.mkdir(parents=True, exist_ok=True)
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and depth < _MOST_DEPTH:
                    waiting.append((folder / entry.name, copy / entry.name, depth + 1))
                elif entry.is_file(follow_symlinks=False):
                    facts = entry.stat(follow_symlinks=False)
                    files, total_bytes = files + 1, total_bytes + facts.st_size
                    if files > _MOST_FILES or total_bytes > _MOST_BYTES:
                        return
                    shutil.copyfile(entry.path, copy / entry.name, follow_symlinks=False)
                    # Build tools take a file for out of date by its time.
                    os.utime(copy / entry.name, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def remove(path: Path) -> None:
    """Removes a file, a link or a whole folder; nothing where there is nothing."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    # Python's own removal recurses: a few hundred folders deep it runs out of stack.
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            # A disk that hangs keeps the rest: no verdict is to fail for what it leaves behind.
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run([*command, "--", str(path)], capture_output=True, check=False, timeout=_REMOVE_S)
