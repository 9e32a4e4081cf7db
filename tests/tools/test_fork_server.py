"""The fork server: starts, ends and tells about workers, whoever asks and however they end."""

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from warpsmith.state.errors import InfraError
from warpsmith.tools import fork_server, wire
from warpsmith.tools.fork_server import ForkServer, Spawn
from warpsmith.tools.server_process import ServerProcess, server_environment
from warpsmith.tools.worker.server import Server


def describe(server: ForkServer, source: str) -> tuple[int, dict]:
    """A trusted worker that reads one problem file; its process id and answer."""
    pid, channel = server.spawn(Spawn("problem"))
    wire.send(channel, {"op": "describe", "path": "p.py", "source": source})
    try:
        return pid, wire.receive(channel, 60.0).body
    finally:
        channel.close()


def ending(server: ForkServer, pid: int) -> dict:
    """How a worker ended by itself."""
    deadline = time.monotonic() + 20
    while (found := server.status(pid)).get("running") and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_worker_answers_and_its_end_is_known(server):
    pid, reply = describe(server, "x = 1")
    assert reply["fault"] == "problem"
    assert reply["text"].startswith("p.py: defines no class Model; ")
    assert ending(server, pid)["reason"] == "exit"


def test_killing_ends_a_worker_that_waits_for_ever(server):
    pid, channel = server.spawn(Spawn("problem"))
    assert server.status(pid) == {"running": True}
    assert alive(pid)
    found = server.kill(pid)
    assert found["signal"] in (signal.SIGTERM, signal.SIGKILL)
    assert not alive(pid)
    with pytest.raises(wire.WireError):
        wire.receive(channel, 5.0)
    channel.close()


def test_killing_twice_says_the_same_and_an_unknown_process_is_nobodys(server):
    pid, channel = server.spawn(Spawn("problem"))
    channel.close()
    assert server.kill(pid) == server.kill(pid)
    assert server.kill(1 << 30)["reason"] == "unknown"
    assert alive(os.getpid())


def test_a_process_that_is_no_worker_is_left_alone(server):
    assert server.kill(os.getpid())["reason"] == "unknown"


def test_an_unknown_role_costs_that_worker_only(server):
    pid, channel = server.spawn(Spawn("nonsense"))
    with pytest.raises(wire.WireError):
        wire.receive(channel, 20.0)
    channel.close()
    assert ending(server, pid)["code"] != 0
    assert describe(server, "x = 1")[1]["fault"] == "problem"


@pytest.mark.parametrize(
    ("source", "told"),
    [("import os; os._exit(7)", ("code", 7)), ("import os; os.kill(os.getpid(), 9)", ("signal", 9))],
)
def test_a_worker_that_dies_closes_its_channel_and_its_end_is_told(server, source, told):
    pid, channel = server.spawn(Spawn("problem"))
    wire.send(channel, {"op": "describe", "path": "p.py", "source": source})
    with pytest.raises(wire.WireError, match="closed"):
        wire.receive(channel, 20.0)
    channel.close()
    assert ending(server, pid)[told[0]] == told[1]


def test_several_threads_at_once_each_get_their_own_worker(server):
    found = []

    def ask(number: int) -> None:
        pid, reply = describe(server, f"raise ValueError('number {number}')")
        found.append((pid, f"number {number}" in reply["text"]))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({pid for pid, _ in found}) == 8
    assert all(right for _, right in found)


def test_workers_share_no_state(server):
    planted = "import warpsmith.tools.wire as w\nplanted = getattr(w, 'planted', 0)\nw.planted = 1\n"
    for _ in range(2):
        _, reply = describe(server, planted + "raise ValueError(f'planted {planted}')")
        assert "planted 0" in reply["text"]


def test_an_answer_that_comes_too_late_is_nobodys_else(monkeypatch):
    """A kill that takes long must not be taken for the answer to the spawn that comes next."""
    monkeypatch.setattr(fork_server, "_ANSWER_S", 0.2)
    ours, theirs = wire.pair()
    client = ForkServer(ours)
    with pytest.raises(InfraError, match="does not answer"):
        client.kill(5)
    late = wire.receive(theirs).body

    def answer() -> None:
        wire.send(theirs, {"reason": "exit", "id": late["id"]})
        wire.send(theirs, {"running": True, "id": wire.receive(theirs).body["id"]})

    thread = threading.Thread(target=answer)
    thread.start()
    assert client.status(7) == {"running": True}
    thread.join()
    ours.close()
    theirs.close()


def test_a_process_that_cannot_be_had_is_an_error_of_ours_and_the_server_stays():
    ours, theirs = wire.pair()
    made = Server(theirs)
    made._spawn = no_process  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: made._answer(theirs))
    thread.start()
    with pytest.raises(InfraError, match="the fork server cannot start a process: .*no more"):
        ForkServer(ours).spawn(Spawn("problem"))
    thread.join()
    ours.close()
    theirs.close()


def no_process(_body: object, _fds: object) -> dict[str, object]:
    raise BlockingIOError(11, "no more processes")


def test_a_server_that_is_gone_is_an_error_of_ours():
    ours, theirs = wire.pair()
    theirs.close()
    with pytest.raises(InfraError, match="fork server does not answer"):
        ForkServer(ours).spawn(Spawn("problem"))
    ours.close()


def test_the_servers_environment_is_a_short_list(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("HOME", "/home/somebody")
    found = server_environment(tmp_path, False, 0)
    assert "secret" not in found.values()
    assert "TRITON_INTERPRET" not in found
    assert found["HOME"] == str(tmp_path)
    assert server_environment(tmp_path, True, 0)["TRITON_INTERPRET"] == "1"


def test_a_server_that_does_not_start_is_told_with_its_last_line(monkeypatch, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho first >&2\necho 'ImportError: no torch here' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    process = ServerProcess(tmp_path, 20.0, interpret=False)
    with pytest.raises(InfraError, match="does not start: ImportError: no torch here"):
        process.hello()
    process.close()


def test_a_server_that_says_nothing_is_given_up_in_time(monkeypatch, tmp_path):
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))
    process = ServerProcess(tmp_path, 0.3, interpret=False)
    started = time.monotonic()
    with pytest.raises(InfraError, match="does not start"):
        process.hello()
    process._process.kill()
    process.close()
    assert time.monotonic() - started < 5


@pytest.mark.slow
def test_when_the_controller_hangs_up_every_worker_ends():
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-test-"))
    process = ServerProcess(folder, 240.0, interpret=False)
    assert process.hello()["versions"]["torch"]
    pid, channel = process.client.spawn(Spawn("problem"))
    box = {"scratch": str(folder)}
    boxed, inner = process.client.spawn(Spawn("candidate", {"device": "cpu"}, box))
    wire.send(inner, {"op": "open"})
    wire.receive(inner, 30.0)
    process.close()
    deadline = time.monotonic() + 10
    while (alive(pid) or alive(boxed)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)
    assert not alive(boxed)
    channel.close()
    inner.close()
