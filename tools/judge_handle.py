"""The controller's side of a judge process."""

from contextlib import AbstractContextManager
from typing import Any

from ..state.errors import InfraError, InvalidProblem
from . import wire
from .cell import Cell
from .fork_server import ForkServer, Spawn


class JudgeHandle:
    """One judge process: asks it, one request at a time, and ends it."""

    def __init__(self, server: ForkServer, params: dict[str, Any]) -> None:
        self._server = server
        self._pid, self._channel = server.spawn(Spawn("judge", params))
        self.alive = True
        checked(self._receive(120.0))

    def ask(self, op: str, deadline_s: float, **fields: Any) -> dict[str, Any]:
        """One request. Raises InvalidProblem or InfraError."""
        self._send({"op": op, **fields})
        return checked(self._receive(deadline_s))

    def ask_about(
        self, cell: Cell, op: str, fields: dict[str, Any], quiet: AbstractContextManager[Any]
    ) -> dict[str, Any]:
        """Has the process in a cell judged. `quiet` is held from when the judge begins to time until it answers."""
        body = {**fields, "pid": cell.pid, "notes": cell.notes}
        self._send({"op": op, **body}, [cell.channel.fileno()])
        reply = self._receive(cell.deadline_s)
        if reply.get("stage") != "timing":
            return checked(reply)
        with quiet:
            self._send({"go": True})
            return checked(self._receive(cell.deadline_s))

    def _send(self, body: dict[str, Any], fds: list[int] | None = None) -> None:
        try:
            wire.send(self._channel, body, fds)
        except wire.WireError as error:
            self.close()
            raise InfraError(f"the judge has ended: {error}") from error

    def _receive(self, deadline_s: float) -> dict[str, Any]:
        try:
            return wire.receive(self._channel, deadline_s).body
        except wire.WireError as error:
            self.close()
            raise InfraError(f"the judge does not answer: {error}") from error

    def close(self) -> None:
        if self.alive:
            self.alive = False
            try:
                self._server.kill(self._pid)  # first: whoever waits for it in another thread hears that it hung up
            finally:
                self._channel.close()


def checked(reply: dict[str, Any]) -> dict[str, Any]:
    """Turns a worker's word of a fault into the exception that it stands for."""
    if reply.get("fault") == "problem":
        raise InvalidProblem(str(reply["text"]))
    if "fault" in reply:
        raise InfraError(f"{reply['text']}{_trace(reply)}")
    return reply


def _trace(reply: dict[str, Any]) -> str:
    return "\n" + str(reply["trace"]) if reply.get("trace") else ""
