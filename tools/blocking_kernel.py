"""The kernel that timed calls wait behind, compiled once for an architecture in a process of its own."""

import subprocess
import sys
from pathlib import Path

from .whole_file import write_whole

_TIMEOUT_S = 60.0


def cubin(arch: str, work_dir: Path) -> str:
    """Its machine code in base64, kept in the work folder; empty where NVRTC is missing, and whoever times says so."""
    kept = work_dir / f"blocking-kernel-{arch}.txt"
    if kept.exists():
        return kept.read_text()
    command = [sys.executable, "-P", "-m", "warpsmith.tools.worker.blocker", arch]
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    write_whole(kept, made)
    return made
