"""The fork server as a child of this process, with an environment that holds no secrets."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..state.errors import InfraError
from . import wire
from .fork_server import ForkServer

_PASSED_ON = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "PYTHONPATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "VIRTUAL_ENV",
)


class ServerProcess:
    """One fork server as a child of this process. Started at once; `hello` waits until it can fork."""

    def __init__(self, work_dir: Path, timeout_s: float, interpret: bool, gpu: int = 0) -> None:
        self._log = work_dir / "server.log"
        self._timeout_s = timeout_s
        self._sock, theirs = wire.pair()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "warpsmith.tools.worker.server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=server_environment(work_dir, interpret, gpu),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log.open("ab"),
        )
        theirs.close()
        self._hello: dict[str, Any] = {}
        self.client = ForkServer(self._sock)

    def hello(self) -> dict[str, Any]:
        """What the server has loaded: versions, and whether Triton interprets. Raises InfraError."""
        if not self._hello:
            try:
                self._hello = wire.receive(self._sock, self._timeout_s).body
            except wire.WireError as error:
                log = self._log.read_text(errors="replace").strip().splitlines()
                raise InfraError(f"the worker server does not start: {log[-1] if log else error}") from error
        return self._hello

    def close(self) -> None:
        self.client.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()


def driver_name(gpu: int) -> str:
    """What the driver calls the GPU that this process numbers so: an index or a UUID."""
    visible = [entry for entry in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if entry]
    return visible[gpu] if gpu < len(visible) else str(gpu)


def server_environment(work_dir: Path, interpret: bool, gpu: int) -> dict[str, str]:
    """The server's whole environment: no secrets, so no worker can have any; and one GPU, which every library in
    every worker then numbers 0."""
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment["CUDA_VISIBLE_DEVICES"] = driver_name(gpu)
    environment.update(
        HOME=str(work_dir),
        TRITON_CACHE_DIR=str(work_dir / "triton"),
        TRITON_DEFAULT_FP_FUSION="1",
        PYTHONUNBUFFERED="1",
        OPENBLAS_NUM_THREADS="1",
    )
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    return environment
