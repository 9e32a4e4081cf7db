"""A boxed process for a candidate: sandboxed at once, its GPU context open once asked, nothing hostile in it yet."""

import socket
from pathlib import Path
from typing import Any

from ..state.errors import InfraError
from . import scratch_folder, wire
from .fork_server import ForkServer, Spawn

_START_S = 30.0


class Cell:
    """Use as a context manager: leaving it ends the process, all that it started, and its scratch folder."""

    def __init__(self, server: ForkServer, request: Spawn, deadline_s: float) -> None:
        self._server = server
        self._request = request
        self.deadline_s = deadline_s
        """How long the judge may take over what is in it."""
        box = request.box or {}
        self.folder = Path(box.get("origin") or box.get("scratch", ""))
        """Where its scratch folder lies outside."""
        self.user = int(box.get("user", scratch_folder.NOBODY))
        """Who it runs as, where the harness is root."""
        self.pid, self.channel = server.spawn(request)
        self.notes: list[str] = []

    def __enter__(self) -> "Cell":
        return self

    def end(self) -> None:
        """Ends the process and all that it started; its scratch folder stays. Twice does no harm."""
        self.channel.close()
        self._server.kill(self.pid)

    def __exit__(self, *_: object) -> None:
        try:
            self.end()
        finally:
            if self._request.box is not None:
                scratch_folder.remove(self.folder)

    def open_context(self) -> None:
        """Has a candidate's process open its GPU context, which slows whatever is timed meanwhile, and waits for it.

        Raises InfraError as `wait_until_ready` does.
        """
        try:
            wire.send(self.channel, {"op": "open"})
        except wire.WireError as error:
            raise InfraError(f"a sandboxed process does not start: {error}") from error
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Nothing of the candidate ran yet, so a failure is ours: raises InfraError."""
        try:
            hello: dict[str, Any] = wire.receive(self.channel, _START_S, max_bytes=1 << 16).body
        except wire.WireError as error:
            raise InfraError(f"a sandboxed process does not start: {error}") from error
        if "fault" in hello:
            raise InfraError(f"a sandboxed process does not start: {hello['fault']}")
        self.notes = [str(note) for note in hello.get("notes", [])][:16]


def channel_from(fds: list[int]) -> socket.socket:
    """The judge's end of a cell's channel, as it came with a message. Raises WireError if it did not."""
    if len(fds) != 1:
        raise wire.WireError(f"{len(fds)} descriptors where one channel was expected")
    return socket.socket(fileno=fds[0])
