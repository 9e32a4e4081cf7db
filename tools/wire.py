"""Framed JSON messages with file descriptors over Unix sockets: how controller, server, judge and child talk.

A frame is a 4-byte big-endian length and that many bytes of UTF-8 JSON. What a candidate's process sends is hostile:
`receive` bounds size and time, and whoever reads the message checks every field.
"""

import json
import os
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

MAX_FRAME_BYTES = 8 << 20
MAX_FDS = 64
_HEADER = struct.Struct(">I")


class WireError(Exception):
    """The other side closed, spoke out of turn or sent something that is no frame."""


class WireTimeout(WireError):
    """Nothing came in time."""


@dataclass
class Message:
    """One decoded frame and the descriptors that came with it."""

    body: dict[str, Any]
    fds: list[int] = field(default_factory=list)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected stream sockets, not inherited across exec."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def send(sock: socket.socket, body: dict[str, Any], fds: list[int] | None = None) -> None:
    """Sends one message. Raises WireError if the other side is gone."""
    payload = json.dumps(body).encode()
    frame = _HEADER.pack(len(payload)) + payload
    try:
        if not fds:
            sock.sendall(frame)
            return
        if len(fds) > MAX_FDS:
            raise WireError(f"{len(fds)} descriptors in one message; at most {MAX_FDS}")
        sent = socket.send_fds(sock, [frame], fds)
        sock.sendall(frame[sent:])
    except TimeoutError as error:
        raise WireTimeout("the other side does not read") from error
    except OSError as error:
        raise WireError(f"the other side is gone: {error}") from error


def receive(sock: socket.socket, timeout_s: float | None = None, max_bytes: int = MAX_FRAME_BYTES) -> Message:
    """Receives one message. Raises WireTimeout or WireError; never blocks past `timeout_s`, however slowly it comes."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    fds: list[int] = []
    try:
        return Message(_frame(sock, fds, deadline, max_bytes), fds)
    except (WireError, OSError, ValueError, RecursionError) as error:
        for descriptor in fds:
            os.close(descriptor)
        if isinstance(error, WireError):
            raise
        if isinstance(error, TimeoutError):
            raise WireTimeout(f"no answer within {timeout_s} s") from error
        raise WireError(f"broken message: {error}") from error


def _frame(sock: socket.socket, fds: list[int], deadline: float | None, max_bytes: int) -> dict[str, Any]:
    _allow(sock, deadline)
    header, received, _, _ = socket.recv_fds(sock, _HEADER.size, MAX_FDS)
    fds.extend(received)
    if not header:
        raise WireError("closed")
    header += _exactly(sock, _HEADER.size - len(header), deadline)
    (length,) = _HEADER.unpack(header)
    if length > max_bytes:
        raise WireError(f"a message of {length} bytes; at most {max_bytes}")
    body = json.loads(_exactly(sock, length, deadline))
    if not isinstance(body, dict):
        raise WireError("a message that is no object")
    return body


def _allow(sock: socket.socket, deadline: float | None) -> None:
    """Lets the next read take what is left of the time."""
    left_s = None if deadline is None else deadline - time.monotonic()
    if left_s is not None and left_s <= 0:
        raise TimeoutError
    sock.settimeout(left_s)


def _exactly(sock: socket.socket, count: int, deadline: float | None) -> bytes:
    chunks = []
    while count:
        _allow(sock, deadline)
        chunk = sock.recv(min(count, 1 << 20))
        if not chunk:
            raise WireError("closed in the middle of a message")
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)
