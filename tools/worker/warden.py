"""The warden: a tiny process between the fork server and one boxed process. It watches memory and cleans up.

The boxed process is pid 1 of its own pid namespace where there is one, so its death ends everything that it started;
elsewhere the warden is the subreaper of all its descendants and kills them one by one.
"""

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

from . import linux, sandbox

_POLL_S = 0.05
_POLLS_A_LOOK = 4
"""The scratch folder is looked through every so many polls."""
_WAKING = frozenset((signal.SIGTERM, signal.SIGCHLD))
"""What ends a wait at once: an order to stop, and the boxed process's end. The next candidate waits for that."""
_MOST_ENTRIES = 100_000
_RESIDENT = re.compile(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)
_PROPORTIONAL = re.compile(r"^Pss_(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)


def guard(box: sandbox.Box, max_memory_bytes: int, report_fd: int, body: Callable[[list[str]], None]) -> None:
    """Runs `body(notes)` boxed in a new process, watches it, writes how it ended to `report_fd`, never returns."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAKING)  # before the fork: a signal that comes first waits for the watch
    linux.prctl_subreaper()
    linux.prctl_death_signal(signal.SIGKILL)
    missing = sandbox.unshare_namespaces(box)
    boxed = os.fork()
    if boxed == 0:
        _run_boxed(box, missing, body)
    reason = _watch(boxed, max_memory_bytes, box, namespaced=not missing)
    os.write(report_fd, json.dumps(reason).encode())
    os._exit(0)


def _run_boxed(box: sandbox.Box, missing: str, body: Callable[[list[str]], None]) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAKING)
    try:
        notes = sandbox.enter(box, namespaced=not missing)
        body([missing, *notes] if missing else notes)
    finally:
        # No clean-up of the parent's objects (locks, atexit hooks) in a fork.
        os._exit(0)


def _watch(boxed: int, max_memory_bytes: int, box: sandbox.Box, namespaced: bool) -> dict[str, object]:
    why = "exit"
    status = None
    polls = 0
    while status is None:
        polls += 1
        pid, found = os.waitpid(boxed, os.WNOHANG)
        if pid:
            status = found
        elif why != "exit":
            os.kill(boxed, signal.SIGKILL)
            _, status = os.waitpid(boxed, 0)
        elif _memory_bytes(boxed, namespaced, max_memory_bytes) > max_memory_bytes:
            why = "memory"
        # The box's mounts are this process's too: its folder is where it is shown, and lies hidden where it comes from.
        elif polls % _POLLS_A_LOOK == 0 and _disk_bytes(box.scratch) > box.max_scratch_bytes:
            why = "disk"
        else:
            woken = signal.sigtimedwait(_WAKING, _POLL_S)
            if woken is not None and woken.si_signo == signal.SIGTERM:
                why = "killed"
    if not namespaced:
        # A pid namespace ends with its first process; and /proc shows only the dead namespace by now.
        _end_orphans()
    return {
        "reason": why,
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
    }


def _end_orphans() -> None:
    """Kills and reaps every child left, orphans included. Bounded: each death may hand over new orphans."""
    for _ in range(1000):
        for name in Path("/proc/self/task").iterdir():
            for child in (name / "children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _memory_bytes(boxed: int, namespaced: bool, enough: int) -> int:
    """Anonymous and shared memory of everything in the box; exact only where it may be more than `enough`."""
    # Once the box has mounted its own /proc, that shows only the box, and no `self` for this process outside it.
    own_view = namespaced and not Path("/proc/self").exists()
    members = [p.name for p in Path("/proc").iterdir() if p.name.isdigit()] if own_view else _descendants(boxed)
    most = sum(_counted_bytes(pid, "status", _RESIDENT) for pid in members)
    if most <= enough:
        return most
    # Pages that forks share count once each; telling them apart takes a walk over the page tables.
    return sum(_counted_bytes(pid, "smaps_rollup", _PROPORTIONAL) for pid in members)


def _counted_bytes(pid: str, file: str, lines: re.Pattern[str]) -> int:
    try:
        text = Path(f"/proc/{pid}/{file}").read_text()
    except (OSError, ValueError):
        return 0  # it ended between listing and reading
    return sum(int(kib) for kib in lines.findall(text)) << 10


def _disk_bytes(folder: str) -> int:
    """Disk space of everything in a folder; of what cannot be counted any more, more than anybody may have."""
    total, seen, waiting = 0, 0, [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue  # removed meanwhile, or a path too long to name
        if seen > _MOST_ENTRIES:
            return 1 << 62
    return total


def _descendants(pid: int) -> list[str]:
    found, queue = [], [str(pid)]
    while queue:
        current = queue.pop()
        found.append(current)
        try:
            for task in Path(f"/proc/{current}/task").iterdir():
                queue.extend((task / "children").read_text().split())
        except OSError:
            continue  # ended meanwhile
    return found
