"""The fork server: imports torch, triton and cupy once, never touches the GPU, and forks every other worker.

A fork costs milliseconds where a fresh interpreter costs seconds. Roles: `judge` (trusted, one a problem and GPU),
`problem` (reads and lowers the user's file), `device` (looks at the GPU), and boxed ones: `candidate`, `compile` and
`tool` (a profiler or sanitizer with the candidate under it).

    python -P -m warpsmith.tools.worker.server FD

speaks on the inherited socket FD: `spawn`, `kill`, `status`, each answered once. A judge gets a connection of its own.
"""

import gc
import os
import select
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .. import wire
from . import linux, roles, warden
from .sandbox import Box, close_inherited

_KILL_GRACE_S = 5.0
_KILL_S = 20.0


class Server:
    """State of the loop: connections to answer and processes to reap."""

    def __init__(self, control: socket.socket) -> None:
        self.connections = [control]
        self.reports: dict[int, int] = {}
        self.ended: dict[int, dict[str, Any]] = {}

    def serve(self) -> None:
        """Answers until the controller is gone; children die with this process."""
        while self.connections and self.connections[0].fileno() >= 0:
            ready, _, _ = select.select(self.connections, [], [], 0.2)
            self.reap()
            for connection in ready:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        try:
            message = wire.receive(connection, timeout_s=10.0)
            wire.send(connection, {**self._reply(message), "id": message.body.get("id")})
        except wire.WireError:
            if connection is self.connections[0]:
                raise SystemExit(0) from None
            self.connections.remove(connection)
            connection.close()

    def _reply(self, message: wire.Message) -> dict[str, Any]:
        body = message.body
        if body["op"] == "spawn":
            try:
                return self._spawn(body, message.fds)
            except OSError as error:  # no more processes or descriptors to be had: that passes, this server must not
                return {"fault": f"cannot start a process: {error}"}
        if body["op"] == "kill":
            return self._kill(int(body["pid"]))
        self.reap()
        return self.ended.get(int(body["pid"]), {"running": True})

    def _spawn(self, body: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        _assert_no_gpu_open()
        with ExitStack() as ours:
            for descriptor in fds:
                ours.callback(os.close, descriptor)
            own_end, other_end = wire.pair()
            ours.callback(other_end.close)
            report_read, report_write = os.pipe()
            ours.callback(os.close, report_write)
            try:
                pid = os.fork()
            except OSError:
                os.close(report_read)
                raise
            if pid == 0:
                _become_worker(body, fds[0], report_write, other_end)
        self.ended.pop(pid, None)  # of an earlier process that bore this number
        if body["role"] == "judge":
            self.connections.append(own_end)
        else:
            own_end.close()
        self.reports[pid] = report_read
        return {"pid": pid}

    def _kill(self, pid: int) -> dict[str, Any]:
        """Ends a worker and everything that it started; answers how it ended.

        One that a driver holds on to is left behind, and reaped when it goes: everybody else waits for this server.
        """
        started = time.monotonic()
        deadline = started + _KILL_GRACE_S
        first = True
        while pid in self.reports and time.monotonic() < started + _KILL_S:
            overdue = time.monotonic() > deadline
            if first or overdue:
                os.kill(pid, signal.SIGKILL if overdue else signal.SIGTERM)
            first = False
            time.sleep(0.002)
            self.reap()
        return self.ended.get(pid, {"reason": "unknown", "code": None, "signal": None})

    def reap(self) -> None:
        """Collects workers that ended."""
        while self.reports:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.ended[pid] = _ending(self.reports.pop(pid, None), status)


def _ending(report_fd: int | None, status: int) -> dict[str, Any]:
    """How a worker ended: the warden's word where there is one, the exit status otherwise."""
    plain = {
        "reason": "exit",
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
    }
    if report_fd is None:
        return plain
    with os.fdopen(report_fd, "rb") as stream:
        text = stream.read()
    if not text:
        return plain
    import json

    return dict(json.loads(text))


def _become_worker(body: dict[str, Any], channel_fd: int, report_fd: int, server_end: socket.socket) -> None:
    """In the fork: never returns."""
    try:
        gc.disable()  # a collection would copy every shared page that it visits
        linux.prctl_death_signal(signal.SIGKILL)  # no worker outlives the server, not even one that hangs
        keep = {channel_fd, report_fd, server_end.fileno()}
        role, params = body["role"], body.get("params", {})
        if body.get("box") is None:
            linux_stderr = os.dup(2)
            close_inherited(keep | {linux_stderr})
            os.dup2(linux_stderr, 2)
            channel = socket.socket(fileno=channel_fd)
            roles.run(role, channel, params, server_end)
        else:
            close_inherited({channel_fd, report_fd})
            box = Box.model_validate(body["box"])

            def boxed(notes: list[str]) -> None:
                os.close(report_fd)
                roles.run_boxed(role, socket.socket(fileno=channel_fd), params, notes)

            warden.guard(box, int(body["max_memory_bytes"]), report_fd, boxed)
    finally:
        os._exit(1)


def _assert_no_gpu_open() -> None:
    for name in Path("/proc/self/fd").iterdir():
        try:
            target = str(name.readlink())
        except OSError:
            continue  # the listing's own descriptor
        if target.startswith("/dev/nvidia"):
            raise RuntimeError(f"the fork server has {target} open")


def main() -> None:
    """Entry point of the server process."""
    control = socket.socket(fileno=int(sys.argv[1]))
    roles.preload()
    if threading.active_count() != 1:
        raise RuntimeError(f"threads in the fork server: {[t.name for t in threading.enumerate()]}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to handle
    wire.send(control, {"ready": True, **roles.versions()})
    gc.collect()
    gc.freeze()
    Server(control).serve()


if __name__ == "__main__":
    main()
