"""What code in a box can see and touch, asked from inside by code that wants out."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from warpsmith.state.evaluation import Status
from warpsmith.tools.box_users import next_user
from warpsmith.tools.scratch_folder import NOBODY
from warpsmith.tools.worker import warden

pytestmark = pytest.mark.skipif(os.name != "posix", reason="boxes are Linux's")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="an unprivileged harness has no privileges to drop")


def test_a_box_reports_no_missing_layer_here(boxes, namespaces):
    session, _ = boxes.start()
    assert session.notes == ([] if os.geteuid() == 0 else ["user: same user as the harness, in a user namespace"])


@root_only
def test_the_boxed_process_is_an_unprivileged_user_for_good(boxes):
    found = boxes.report("""
        import os
        text = open("/proc/self/status").read()
        try:
            os.setuid(0)
            back = True
        except PermissionError:
            back = False
        found = {"ids": [*os.getresuid(), *os.getresgid()], "groups": os.getgroups(), "status": text, "back": back}
    """)
    assert found["ids"] == [NOBODY] * 6
    assert found["groups"] == []
    assert found["back"] is False
    assert "CapEff:\t0000000000000000" in found["status"]
    assert "NoNewPrivs:\t1" in found["status"]


@root_only
def test_a_user_whom_the_machine_does_not_list_has_a_name(boxes):
    # torch.compile asks for it.
    found = boxes.report("import getpass\nfound = {'name': getpass.getuser()}", user=next_user())
    assert found["name"] == "candidate"


@pytest.mark.parametrize("namespaced", [True, False])
def test_the_environment_holds_no_secret_of_ours(boxes, namespaced):
    found = boxes.report(
        """
        import os
        found = {"now": dict(os.environ), "line": open("/proc/self/cmdline").read()}
        try:
            found["block"] = open("/proc/self/environ").read()
        except PermissionError:
            found["block"] = ""  # the kernel closes it to a process that changed its user
        """,
        namespaces=namespaced,
    )
    assert not [name for name in found["now"] if any(w in name.upper() for w in ("KEY", "TOKEN", "SECRET", "PASSW"))]
    # conftest sets one in the environment that the fork server is started from.
    assert "secret" not in str(found)
    assert found["now"]["HOME"] == found["now"]["TMPDIR"]


@pytest.mark.parametrize("namespaced", [True, False])
def test_the_only_descriptors_are_null_and_the_channel(boxes, namespaced):
    found = boxes.report(
        """
        import os, stat
        null = os.stat("/dev/null")
        found = []
        for number in range(4096):
            try:
                facts = os.fstat(number)
            except OSError:
                continue
            is_null = (facts.st_rdev, facts.st_ino) == (null.st_rdev, null.st_ino)
            kind = "socket" if stat.S_ISSOCK(facts.st_mode) else oct(facts.st_mode)
            found.append([number, "null" if is_null else kind])
        """,
        namespaces=namespaced,
    )
    assert [kind for _, kind in found] == ["null", "null", "null", "socket"]


def test_loopback_is_out_of_reach(boxes, namespaces):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        code = f"""
            import socket
            try:
                socket.socket().connect(("127.0.0.1", {port}))
                found = "connected"
            except OSError as error:
                found = type(error).__name__
        """
        assert boxes.report(code) != "connected"
        # The same code outside the namespace gets through, so the port is not to blame.
        assert boxes.report(code, namespaces=False) == "connected"


def test_abstract_sockets_of_the_host_are_out_of_reach(boxes, namespaces):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind("\0warpsmith-test-abstract")
        listening.listen()
        assert (
            boxes.report("""
            import socket
            try:
                socket.socket(socket.AF_UNIX).connect("\\0warpsmith-test-abstract")
                found = "connected"
            except OSError as error:
                found = type(error).__name__
        """)
            != "connected"
        )


def test_only_the_box_is_in_the_process_list(boxes, namespaces):
    found = boxes.report("""
        import os
        found = [os.getpid(), sorted(name for name in os.listdir("/proc") if name.isdigit())]
    """)
    assert found == [1, ["1"]]


def test_home_temporary_folders_and_run_store_look_empty(boxes, namespaces, tmp_path):
    store = tmp_path / "runs"
    store.mkdir()
    (store / "results.jsonl").write_text("{}")
    found = boxes.report(
        f"""
        import os
        from pathlib import Path
        found = {{}}
        for path in ({str(store)!r}, "/root", "/home", "/dev/shm", "/var/tmp"):
            found[path] = os.listdir(path) if os.path.isdir(path) else []
        found["/tmp"] = [name for name in os.listdir("/tmp") if name not in Path.cwd().parts]
        """,
        hidden=[str(store), str(tmp_path)],
    )
    # Folders on the way to the interpreter or to the scratch folder exist, with nothing beside it.
    assert found[str(store)] == []
    assert found["/dev/shm"] == found["/var/tmp"] == []
    assert (store / "results.jsonl").exists()
    assert not [name for name in found["/tmp"] if not Path("/tmp", name).is_dir()]


@root_only
@pytest.mark.parametrize("namespaced", [True, False])
def test_nothing_outside_the_scratch_folder_can_be_written(boxes, namespaced):
    package = Path(__file__).resolve().parents[3]
    session, _ = boxes.start(namespaces=namespaced)
    kept = [note for note in session.notes if note.startswith("user: same user")]
    if kept:
        pytest.skip(f"this interpreter cannot be run by another user without namespaces, which is told: {kept[0]}")
    found = boxes.report(
        f"""
        import os, sys
        found = {{}}
        for folder in ({str(package)!r}, {str(package / "tools")!r}, sys.prefix, "/etc", "/usr", "/", "."):
            try:
                with open(os.path.join(folder, "planted"), "w") as file:
                    file.write("x")
                os.unlink(file.name)
                found[folder] = "written"
            except OSError as error:
                found[folder] = type(error).__name__
        """,
        namespaces=namespaced,
    )
    assert found.pop(".") == "written"
    assert "written" not in found.values()


def test_a_file_larger_than_the_limit_is_cut_off(boxes):
    found = boxes.report(
        """
        try:
            with open("big", "wb") as file:
                for _ in range(64):
                    file.write(b"x" * (1 << 20))
            found = "all written"
        except OSError as error:
            found = error.errno
        """,
        max_file_bytes=8 << 20,
    )
    assert found == 27  # EFBIG


def test_descriptors_are_bounded(boxes):
    found = boxes.report("""
        import os
        kept = []
        try:
            while len(kept) < 5000:
                kept.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        found = len(kept)
        for descriptor in kept:
            os.close(descriptor)
    """)
    assert found < 512


def test_no_core_file_is_left_by_a_crash(boxes):
    session, path = boxes.start("import os; os.abort()")
    with pytest.raises(Exception, match="died of signal"):
        session.ask("load", 30.0, path=str(path))
    assert not list(path.parent.glob("core*"))


@root_only
def test_a_symbolic_link_in_the_scratch_folder_gives_nothing_away(boxes):
    """What lies in scratch when a box starts was left there by the same candidate's compile: hostile files."""
    kept = Path("/var/lib/warpsmith-test-target")
    kept.write_text("ours")
    kept.chmod(0o600)
    try:
        scratch = boxes.scratch()
        (scratch / "innocent").symlink_to(kept)
        boxes.start("", scratch=str(scratch))
        assert kept.stat().st_uid == 0
    finally:
        kept.unlink()


def test_an_orphan_in_its_own_session_dies_with_the_box(boxes):
    check_orphans(boxes, namespaced=True)


def test_an_orphan_dies_also_without_namespaces(boxes):
    check_orphans(boxes, namespaced=False)


def check_orphans(boxes, namespaced: bool) -> None:
    """A grandchild that left its session and its parent touches a file ten times a second."""
    session, path = boxes.start(
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    with open("heartbeat", "a") as file:
                        file.write(".")
                    time.sleep(0.05)
            os._exit(0)
        while not os.path.exists("heartbeat"):
            time.sleep(0.01)
        ModelNew = dict
        """,
        namespaces=namespaced,
    )
    session.ask("load", 30.0, path=str(path))
    heart = path.parent / "heartbeat"
    descriptor = os.open(heart, os.O_RDONLY)
    before = os.fstat(descriptor).st_size
    time.sleep(0.4)
    assert os.fstat(descriptor).st_size > before
    session.end()
    boxes.end()
    ended = os.fstat(descriptor).st_size
    time.sleep(0.4)
    assert os.fstat(descriptor).st_size == ended
    os.close(descriptor)


@pytest.mark.parametrize("namespaced", [True, False])
def test_the_parent_learns_which_signal_ended_a_box(boxes, namespaced):
    failure = boxes.fate("import ctypes; ctypes.string_at(8)", namespaces=namespaced)
    assert failure.status is Status.RUNTIME_ERROR
    assert f"signal {int(signal.SIGSEGV)}" in failure.message


@pytest.mark.parametrize("namespaced", [True, False])
def test_a_box_that_ends_itself_is_told_with_its_exit_code(boxes, namespaced):
    failure = boxes.fate("import os; os._exit(3)", namespaces=namespaced)
    assert failure.status is Status.RUNTIME_ERROR
    assert "exit code 3" in failure.message


@pytest.mark.parametrize("namespaced", [True, False])
def test_a_box_that_takes_too_much_memory_is_ended_as_a_matter_of_resources(boxes, namespaced):
    code = """
        import time
        kept = []
        for _ in range(400):
            kept.append(bytearray(b"x" * (32 << 20)))
            time.sleep(0.01)
    """
    failure = boxes.fate(code, namespaces=namespaced, max_memory_bytes=1 << 30)
    assert failure.status is Status.RESOURCE
    assert "memory" in failure.message


def test_memory_in_a_child_of_the_box_counts(boxes):
    code = """
        import os, time
        if os.fork() == 0:
            kept = []
            for _ in range(400):
                kept.append(bytearray(b"x" * (32 << 20)))
                time.sleep(0.01)
            os._exit(0)
        os.wait()
    """
    assert boxes.fate(code, max_memory_bytes=1 << 30).status is Status.RESOURCE


def test_memory_of_the_rest_of_the_machine_is_not_charged_to_a_box():
    """Until the box has mounted its own /proc, the warden sees every process of the machine in it."""
    with subprocess.Popen(["sleep", "30"]) as outside, subprocess.Popen(["sleep", "30"]) as boxed:
        machine_bytes = warden._memory_bytes(os.getpid(), False, 0)
        found = warden._memory_bytes(boxed.pid, True, 0)
        outside.kill()
        boxed.kill()
    assert 0 < found < machine_bytes


FILL = """
    import time
    for number in range(400):
        with open(f"part{number}", "wb") as file:
            file.write(b"x" * (1 << 20))
        time.sleep(0.02)
"""


def test_a_box_that_fills_its_folder_is_ended_as_a_matter_of_resources(boxes):
    failure = boxes.fate(FILL, max_scratch_bytes=16 << 20)
    assert failure.status is Status.RESOURCE
    assert boxes.endings[-1]["reason"] == "disk"


def test_a_box_that_fills_a_folder_shown_elsewhere_is_ended_as_well(boxes, namespaces):
    """The warden shares the box's view, in which the folder does not lie where it comes from."""
    shown = {"scratch": str(boxes.folder / "shown"), "origin": str(boxes.scratch())}
    assert boxes.fate(FILL, max_scratch_bytes=16 << 20, **shown).status is Status.RESOURCE
    assert boxes.endings[-1]["reason"] == "disk"


def test_a_hang_is_a_timeout_and_the_process_ends(boxes):
    started = time.monotonic()
    failure = boxes.fate("import time\nwhile True: time.sleep(1)", deadline_s=1.0)
    assert failure.status is Status.TIMEOUT
    assert time.monotonic() - started < 8
    assert boxes.endings[-1]["reason"] == "killed"


def test_ignoring_signals_does_not_keep_a_box_alive(boxes):
    code = """
        import signal, time
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True: time.sleep(1)
    """
    assert boxes.fate(code, deadline_s=1.0).status is Status.TIMEOUT
    assert boxes.endings[-1]["signal"] == signal.SIGKILL
