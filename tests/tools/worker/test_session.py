"""The judge's handle on a candidate's process: deadlines of one answer, and of all answers together."""

import socket
import threading
import time

import pytest

from warpsmith.state.evaluation import Status
from warpsmith.tools import wire
from warpsmith.tools.fork_server import ForkServer
from warpsmith.tools.worker.session import CandidateFailed, Session


class Slow:
    """Answers every request after so long."""

    def __init__(self, seconds: float) -> None:
        ours, self._theirs = wire.pair()
        self._seconds = seconds
        unused, _ = socket.socketpair()
        self.session = Session(ForkServer(unused), 0, ours, [])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                body = wire.receive(self._theirs).body
                time.sleep(self._seconds)
                wire.send(self._theirs, {"id": body["id"], "ok": True})
            except wire.WireError:
                return


def test_one_answer_has_a_deadline():
    with pytest.raises(CandidateFailed, match="load did not end within 0 s") as caught:
        Slow(1.0).session.ask("load", 0.05)
    assert caught.value.status is Status.TIMEOUT


def test_all_answers_together_have_one_too():
    session = Slow(0.05).session
    session.left_s = 30.0
    for _ in range(2):
        session.ask("load", 10.0)
    session.left_s = min(session.left_s, 0.02)
    with pytest.raises(CandidateFailed, match="together, at last load") as caught:
        session.ask("load", 10.0)
    assert caught.value.status is Status.TIMEOUT
    assert session.crashed


def test_quick_answers_take_little_of_it():
    session = Slow(0.0).session
    for _ in range(20):
        session.ask("load", 10.0)
    assert session.left_s > 390
