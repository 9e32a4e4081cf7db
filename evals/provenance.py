"""Which code a measurement was made with, and by which command: stated in every result file."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commit(given: str = "") -> str:
    """The commit handed in, else `WARPSMITH_COMMIT`, else git's; `-dirty` marks uncommitted changes to the code."""
    named = given or os.environ.get("WARPSMITH_COMMIT", "")
    if named:
        return named
    head = _git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!README.md")
    return f"{head}-dirty" if changed else head


def command(module: str, arguments: list[str] | None = None) -> str:
    """The command line that runs `module` with these arguments (the process's own by default).

    Of absolute paths only the last part is kept: where a machine keeps its files helps nobody else.
    """
    given = sys.argv[1:] if arguments is None else arguments
    return shlex.join(["python", "-m", module, *(Path(a).name if Path(a).is_absolute() else a for a in given)])


def _git(*arguments: str) -> str:
    """Output of a git command, empty where there is no git or no repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
