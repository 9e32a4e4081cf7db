"""Client of the fork server: starts workers and ends them. Used by the controller and by judges."""

import os
import socket
import threading
from dataclasses import dataclass, field
from typing import Any

from ..state.errors import InfraError
from . import wire

_ANSWER_S = 30.0


@dataclass(frozen=True)
class Spawn:
    """A request for one worker. A worker with a box runs hostile code."""

    role: str
    params: dict[str, Any] = field(default_factory=dict)
    box: dict[str, Any] | None = None
    max_memory_bytes: int = 24 << 30


class ForkServer:
    """One connection to the server; safe to use from several threads."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._asked = 0

    def spawn(self, request: Spawn) -> tuple[int, socket.socket]:
        """Starts a worker; its process id and this side of its channel."""
        ours, theirs = wire.pair()
        body = {
            "op": "spawn",
            "role": request.role,
            "params": request.params,
            "box": request.box,
            "max_memory_bytes": request.max_memory_bytes,
        }
        try:
            reply = self._ask(body, [theirs.fileno()])
        finally:
            theirs.close()
        return int(reply["pid"]), ours

    def kill(self, pid: int) -> dict[str, Any]:
        """Ends a worker and all it started; says how it ended: `reason`, `code`, `signal`."""
        return self._ask({"op": "kill", "pid": pid})

    def status(self, pid: int) -> dict[str, Any]:
        """How a worker ended, or `{"running": True}`."""
        return self._ask({"op": "status", "pid": pid})

    def close(self) -> None:
        self._sock.close()

    def _ask(self, body: dict[str, Any], fds: list[int] | None = None) -> dict[str, Any]:
        with self._lock:
            self._asked += 1
            try:
                wire.send(self._sock, {**body, "id": self._asked}, fds)
                reply = wire.receive(self._sock, timeout_s=_ANSWER_S).body
                while reply.get("id") != self._asked:  # came too late for whoever asked
                    reply = wire.receive(self._sock, timeout_s=_ANSWER_S).body
            except wire.WireError as error:
                raise InfraError(f"the fork server does not answer: {error}") from error
        del reply["id"]
        if "fault" in reply:
            raise InfraError(f"the fork server {reply['fault']}")
        return reply


def close_all(descriptors: list[int]) -> None:
    """Closes descriptors that were sent on."""
    for descriptor in descriptors:
        os.close(descriptor)
