"""Frames between processes, and what becomes of those that are no frames."""

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from warpsmith.tools import wire

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Pair]:
    left, right = wire.pair()
    yield left, right
    left.close()
    right.close()


def frame(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - descriptors, not files


def test_a_message_arrives_as_it_was_sent(ends):
    body = {"op": "call", "nested": [1, 2.5, None, {"text": "größer \N{SNOWMAN}"}], "empty": {}}
    wire.send(ends[0], body)
    assert wire.receive(ends[1], 1.0) == wire.Message(body, [])


def test_messages_sent_in_a_row_stay_apart_and_in_order(ends):
    for number in range(5):
        wire.send(ends[0], {"number": number})
    assert [wire.receive(ends[1], 1.0).body["number"] for _ in range(5)] == list(range(5))


def test_a_message_larger_than_the_sockets_buffer_arrives_whole(ends):
    body = {"text": "x" * (3 << 20)}
    sender = threading.Thread(target=wire.send, args=(ends[0], body))
    sender.start()
    assert wire.receive(ends[1], 10.0).body == body
    sender.join()


def test_descriptors_cross_and_name_the_same_file(ends):
    memory = os.memfd_create("shared")
    os.write(memory, b"ours")
    wire.send(ends[0], {"op": "map"}, [memory, memory])
    message = wire.receive(ends[1], 1.0)
    assert len(message.fds) == 2
    assert memory not in message.fds
    assert os.pread(message.fds[1], 4, 0) == b"ours"
    for descriptor in (memory, *message.fds):
        os.close(descriptor)


def test_too_many_descriptors_are_refused_before_anything_is_sent(ends):
    with pytest.raises(wire.WireError, match="65 descriptors"):
        wire.send(ends[0], {}, [0] * (wire.MAX_FDS + 1))
    wire.send(ends[0], {"next": True})
    assert wire.receive(ends[1], 1.0).body == {"next": True}


def test_silence_is_a_timeout(ends):
    started = time.monotonic()
    with pytest.raises(wire.WireTimeout, match=r"0\.2 s"):
        wire.receive(ends[1], 0.2)
    assert time.monotonic() - started < 2


def test_a_message_that_trickles_in_is_a_timeout_too(ends):
    """Each byte comes in time; the whole must as well, or a candidate could hold its judge for hours."""
    stop = threading.Event()

    def trickle() -> None:
        for byte in frame(b'{"text": "' + b"x" * 1000 + b'"}'):
            if stop.wait(0.05):
                return
            ends[0].send(bytes([byte]))

    sender = threading.Thread(target=trickle)
    sender.start()
    started = time.monotonic()
    with pytest.raises(wire.WireTimeout):
        wire.receive(ends[1], 0.5)
    took_s = time.monotonic() - started
    stop.set()
    sender.join()
    assert took_s < 2


def test_a_reader_that_does_not_read_is_a_timeout_for_the_sender(ends):
    ends[0].settimeout(0.2)
    with pytest.raises(wire.WireTimeout):
        wire.send(ends[0], {"text": "x" * (4 << 20)})


def test_a_closed_channel_is_no_timeout(ends):
    ends[0].close()
    with pytest.raises(wire.WireError, match="closed") as caught:
        wire.receive(ends[1], 1.0)
    assert not isinstance(caught.value, wire.WireTimeout)


def test_sending_to_nobody_is_an_error_and_no_signal(ends):
    ends[1].close()
    with pytest.raises(wire.WireError, match="gone"):
        wire.send(ends[0], {"op": "call"})


@pytest.mark.parametrize("cut", [1, 3, 4, 9])
def test_a_frame_that_ends_half_way_is_an_error(ends, cut):
    ends[0].sendall(frame(b'{"half": "way"}')[:cut])
    ends[0].close()
    with pytest.raises(wire.WireError, match="middle"):
        wire.receive(ends[1], 1.0)


@pytest.mark.parametrize(
    "payload",
    [b"not json", b"\xff\xfe", b"[1, 2]", b"3", b"null", b"", b"[" * 200_000, b'{"a": ' + b"9" * 5000 + b"}"],
    ids=["text", "bytes", "list", "number", "null", "empty", "deep", "digits"],
)
def test_a_payload_that_is_no_object_is_an_error(ends, payload):
    ends[0].sendall(frame(payload))
    with pytest.raises(wire.WireError):
        wire.receive(ends[1], 5.0)


def test_an_announced_length_beyond_the_bound_is_refused_unread(ends):
    ends[0].sendall(struct.pack(">I", 1 << 31))
    with pytest.raises(wire.WireError, match="2147483648 bytes"):
        wire.receive(ends[1], 1.0)
    ends[0].sendall(frame(b"{}" + b" " * 99))
    with pytest.raises(wire.WireError, match="101 bytes; at most 100"):
        wire.receive(ends[1], 1.0, max_bytes=100)


def test_descriptors_that_come_with_garbage_are_closed(ends):
    before = open_descriptors()
    null = os.open(os.devnull, os.O_RDONLY)
    socket.send_fds(ends[0], [frame(b"garbage")], [null] * 8)
    os.close(null)
    with pytest.raises(wire.WireError):
        wire.receive(ends[1], 1.0)
    assert open_descriptors() == before
