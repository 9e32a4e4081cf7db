"""The judge's handle on one candidate's process: every exchange has a deadline, every failure becomes a status."""

import secrets
import socket
import time
from typing import Any

from ...state.evaluation import Check, Status
from .. import wire
from ..fork_server import ForkServer, close_all
from . import claims

_MOST_S = 400.0
"""What all answers of one candidate together may take: the controller waits 600 s for a verdict, and a candidate that
is a little faster than every single deadline must not look like a judge that hangs."""
_KINDS = {"resource": Status.RESOURCE, "compile": Status.COMPILE_ERROR}


def readable(text: object) -> str:
    """What a candidate says, bounded, without halves of characters that no file and no record can hold."""
    return str(text)[:6000].encode("utf-8", "replace").decode()


class CandidateFailed(Exception):
    """The candidate is to blame: a status, the line that says why, and the failed comparison if there was one."""

    def __init__(self, status: Status, message: str, check: Check | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.check = check


class Session:
    """The judge's end of one cell: `ask` it, and always `end` it."""

    def __init__(self, server: ForkServer, pid: int, channel: socket.socket, notes: list[str]) -> None:
        self._server = server
        self._pid = pid
        self._channel: socket.socket | None = channel
        self._next_id = 0
        self.notes = notes
        self.crashed = False
        """Whether it ended on its own or by force: then the GPU is probed before the next candidate."""
        self.left_s = _MOST_S

    def end(self) -> None:
        """Hangs up. One that crashed or overran is ended here, before the GPU is looked at; others by their cell."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self.crashed:
            self._server.kill(self._pid)

    def ask(self, op: str, deadline_s: float, fds: list[int] | None = None, **fields: Any) -> dict[str, Any]:
        """One request and its answer. Raises CandidateFailed. `fds` are closed once sent."""
        self._next_id = secrets.randbits(53)
        channel = self._channel
        if channel is None:
            raise CandidateFailed(Status.RUNTIME_ERROR, "the process has ended")
        try:
            channel.settimeout(deadline_s)
            wire.send(channel, {"op": op, "id": self._next_id, **fields}, fds)
        except wire.WireError as error:
            raise self._ended(op) from error
        finally:
            close_all(fds or [])
        reply = self._receive(deadline_s, op)
        if reply.get("id") != self._next_id:
            raise CandidateFailed(Status.REWARD_HACK, f"answered {op} with another call's number")
        if "error" in reply:
            status = _KINDS.get(str(reply.get("kind")), Status.RUNTIME_ERROR)
            self.crashed = True
            raise CandidateFailed(status, readable(reply["error"]) or "raised an error without a text")
        fault = claims.fault_of(op, reply)
        if fault:
            raise CandidateFailed(Status.REWARD_HACK, f"answers {op} unreadably: {fault}")
        return reply

    def _receive(self, deadline_s: float, op: str) -> dict[str, Any]:
        channel = self._channel
        if channel is None:
            raise CandidateFailed(Status.RUNTIME_ERROR, "the process has ended")
        started = time.monotonic()
        try:
            message = wire.receive(channel, min(deadline_s, self.left_s), max_bytes=1 << 20)
        except wire.WireTimeout as error:
            self.crashed = True
            text = f"{op} did not end within {deadline_s:.0f} s"
            if self.left_s < deadline_s:
                text = f"all that was asked of it took longer than {_MOST_S:.0f} s together, at last {op}"
            raise CandidateFailed(Status.TIMEOUT, text) from error
        except wire.WireError as error:
            raise self._ended(op) from error
        self.left_s = max(1e-3, self.left_s - (time.monotonic() - started))
        close_all(message.fds)
        return message.body

    def _ended(self, op: str) -> CandidateFailed:
        """The process is gone: asks the server how."""
        self.crashed = True
        deadline = time.monotonic() + 2.0
        ending = self._server.status(self._pid)
        while ending.get("running") and time.monotonic() < deadline:
            time.sleep(0.01)
            ending = self._server.status(self._pid)
        if ending.get("reason") in ("memory", "disk"):
            what = "host memory" if ending["reason"] == "memory" else "disk space"
            return CandidateFailed(Status.RESOURCE, f"used more {what} than allowed during {op}")
        if ending.get("signal"):
            return CandidateFailed(Status.RUNTIME_ERROR, f"died of signal {ending['signal']} during {op}")
        return CandidateFailed(Status.RUNTIME_ERROR, f"ended its process (exit code {ending.get('code')}) during {op}")
