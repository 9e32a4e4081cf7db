"""Runs one program in a box, a profiler or sanitizer with the candidate under it, and brings back what the tool wrote.

It keeps the harness's user where it can, and the candidate under it drops to another: the tool's report lies in a
folder that the candidate cannot enter.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .. import wire

LOG = "{log}"
"""Stands for the path of the tool's report in its options."""
_MOST_LOG = 4 << 20
_MOST_OUTPUT = 4000


def main(channel: socket.socket, _params: dict[str, Any], notes: list[str]) -> None:
    """Answers one request and ends; everything that it started ends with its box."""
    wire.send(channel, {"ready": True, "notes": notes})
    body = wire.receive(channel).body
    wire.send(channel, run(body))
    os._exit(0)


def run(body: dict[str, Any]) -> dict[str, Any]:
    """`code`, `timed_out`, the tool's `log`, and the end of what was printed."""
    scratch = Path(body["order"]["scratch"])
    private = Path(tempfile.mkdtemp(prefix="report-", dir="/tmp"))  # sticky: nobody else can put another in its place
    shared = scratch / "tmp"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o777)  # the tool's locks lie here, and both users open them
    log = private / "log"
    options = [str(log) if option == LOG else option for option in body["options"]]
    program = [sys.executable, "-P", "-m", f"{__package__}.standalone", json.dumps(body["order"])]
    environment = {
        **os.environ,
        **body["environment"],
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(shared),
        "PYTHONPATH": os.pathsep.join([body["package"], *(p for p in sys.path if p and Path(p).is_dir())]),
    }
    os.umask(0)
    with (private / "output").open("wb") as output:
        process = subprocess.Popen(
            [*options, *program],
            env=environment,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code, timed_out = process.wait(float(body["deadline_s"])), False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code, timed_out = process.wait(), True
    found = {
        "code": code,
        "timed_out": timed_out,
        "log": _text(log, _MOST_LOG),
        "output": _text(private / "output", 1 << 30)[-_MOST_OUTPUT:],
    }
    shutil.rmtree(private, ignore_errors=True)
    return found


def _text(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(most).decode(errors="replace")
    except OSError:
        return ""
