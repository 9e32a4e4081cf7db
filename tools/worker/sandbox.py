"""Puts the calling process, a fresh fork, into a box before hostile code loads.

Layers, each reported when it is not to be had: own user, pid, mount, network and ipc namespaces; an unprivileged user
id; an empty home, temporary folder and run store, with only the interpreter and the candidate's own scratch folder
readable; resource limits; an environment of a few known variables. docs/security.md says what this does not cover.
"""

import errno
import os
import resource
import signal
import stat
import sys
import sysconfig
import tempfile
from contextlib import suppress
from pathlib import Path

from ...state.base import Record
from .. import scratch_folder
from ..scratch_folder import NOBODY
from . import linux

_OPEN_TO_ALL = ("/tmp", "/var/tmp", "/dev/shm")
_KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LANG", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TRITON_INTERPRET")
_USER_NAME = "candidate"
"""A box's user is in no list of the machine's, where `getpass.getuser`, which torch.compile calls, looks if no variable
tells."""


class Box(Record):
    """What one boxed process may see and use."""

    scratch: str
    """The one folder that it can write, also its working directory and HOME."""
    hidden: tuple[str, ...] = ()
    """Folders that look empty from inside (run store, work folder, the problem's folder)."""
    readable: tuple[str, ...] = ()
    """Folders shown again, read-only, though they lie under a hidden or unreadable one."""
    masked: tuple[str, ...] = ()
    """Files that read as empty (the problem's own)."""
    max_file_bytes: int = 256 << 20
    max_scratch_bytes: int = 1 << 30
    """Disk space in the scratch folder, watched by the warden."""
    max_open_files: int = 512
    max_processes: int = 512
    user: int = NOBODY
    """Who it runs as where the harness is root. The kernel counts processes by user."""
    namespaces: bool = True
    """False leaves them out, for machines that refuse them half-way."""
    origin: str = ""
    """Folder that is shown as `scratch`, where that is another one; needs namespaces."""
    tool: bool = False
    """A profiler or sanitizer runs in it beside the candidate: it talks over loopback, and keeps its user so that the
    candidate, which drops to another, can neither stop it nor write what it writes."""


def interpreter_folders() -> list[str]:
    """Folders that Python needs for imports after the fork."""
    paths = {sys.prefix, sys.base_prefix, *(p for p in sys.path if p and Path(p).is_dir())}
    paths.update(p for p in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")) if p)
    ordered = sorted(str(Path(p).resolve()) for p in paths)
    kept: list[str] = []
    for path in ordered:
        if not any(path == k or path.startswith(k + "/") for k in kept):
            kept.append(path)
    return kept


def clean_environment(box: Box) -> dict[str, str]:
    """The whole environment of a boxed process: no secrets, private caches."""
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    environment.update(
        HOME=box.scratch,
        USER=_USER_NAME,
        LOGNAME=_USER_NAME,
        TMPDIR=box.scratch,
        TRITON_CACHE_DIR=f"{box.scratch}/triton",
        CUPY_CACHE_DIR=f"{box.scratch}/cupy",
        TORCHINDUCTOR_CACHE_DIR=f"{box.scratch}/inductor",
        TORCH_EXTENSIONS_DIR=f"{box.scratch}/extensions",
        CUDA_CACHE_PATH=f"{box.scratch}/nv",
        TRITON_DEFAULT_FP_FUSION="1",
        PYTHONDONTWRITEBYTECODE="1",
    )
    return environment


def close_inherited(keep: set[int]) -> None:
    """Closes every descriptor but 0, 1, 2 and those to keep; 0 to 2 become /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - descriptors, not files
        descriptor = int(name)
        if descriptor > 2 and descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the listing's own descriptor


def unshare_namespaces(box: Box) -> str:
    """First half, before the second fork. Returns what is missing, empty if nothing."""
    if not box.namespaces:
        return "namespaces: switched off"
    flags = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    try:
        if os.geteuid() == 0:
            linux.unshare(flags)
        else:
            uid, gid = os.getuid(), os.getgid()
            linux.unshare(flags | linux.CLONE_NEWUSER)
            # Root inside for the mounts; enter() drops it. Outside it stays the same unprivileged user.
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        return f"namespaces: {error}"
    return ""


def enter(box: Box, namespaced: bool) -> list[str]:
    """Second half, in the process that will run hostile code. Returns notes on layers that are not in force."""
    notes = []
    os.umask(0o022)
    if namespaced:
        try:
            notes.extend(_mount_view(box))
        except OSError as error:
            notes.append(f"mount view: {error}")
    os.umask(0o077)
    os.chdir(box.scratch)
    environment = clean_environment(box)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = box.scratch  # the server may have settled on /tmp already
    _limit(box)
    if box.tool:
        notes.extend(_loopback(namespaced))
    else:
        notes.extend(drop_privileges(box, namespaced))
    notes.extend(_leave_keyring())
    linux.prctl_no_new_privileges()
    linux.prctl_death_signal(signal.SIGKILL)
    return notes


def _leave_keyring() -> list[str]:
    """Takes from the box what keys the harness's session holds, and a place where candidates could leave notes."""
    try:
        linux.join_new_keyring()
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):  # Where keys are refused, they are so in the box.
            return [f"keyring: {error}"]
    return []


def _loopback(namespaced: bool) -> list[str]:
    try:
        if namespaced:
            linux.bring_up_loopback()
    except OSError as error:
        return [f"loopback: {error}"]
    return []


def _mount_view(box: Box) -> list[str]:
    """Own /proc; everything read-only; hidden folders empty; the interpreter and the scratch folder shown again."""
    notes = []
    linux.mount("none", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    sealed = True
    try:
        # Before anything else is mounted: a folder that everybody may write to would carry notes between candidates.
        linux.make_read_only("/")
    except OSError as error:
        sealed = False
        notes.append(f"file systems stay writable where their permissions allow: {error}")
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    shown = [(p, p, True) for p in (*interpreter_folders(), *box.readable) if Path(p).exists()]
    shown.append((box.scratch, box.origin or box.scratch, False))
    handles = [(p, os.open(source, os.O_PATH | os.O_DIRECTORY), ro) for p, source, ro in shown]
    covers = _outermost(
        [p for p in (*box.hidden, "/tmp", "/var/tmp", "/root", "/home", "/dev/shm") if Path(p).is_dir()]
    )
    for cover in covers:
        linux.mount(
            "tmpfs",
            cover,
            "tmpfs",
            linux.MS_NOSUID | linux.MS_NODEV,
            f"size=256m,mode={1777 if cover in _OPEN_TO_ALL else 755}",
        )
    for path, handle, read_only in handles:
        if any(path == c or path.startswith(c + "/") for c in covers):
            Path(path).mkdir(parents=True, exist_ok=True, mode=0o755)
            linux.mount(f"/proc/self/fd/{handle}", path, "", linux.MS_BIND | linux.MS_REC)
            if not read_only and sealed:
                linux.make_writable(path)
            elif read_only and not sealed:
                linux.mount("none", path, "", linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY)
        os.close(handle)
    for path in box.masked:
        if Path(path).is_file():
            linux.mount(os.devnull, path, "", linux.MS_BIND)
    return notes


def _outermost(paths: list[str]) -> list[str]:
    ordered = sorted({str(Path(p).resolve()) for p in paths}, key=len)
    kept: list[str] = []
    for path in ordered:
        if not any(path == k or path.startswith(k + "/") for k in kept):
            kept.append(path)
    return kept


def _limit(box: Box) -> None:
    """Limits that CUDA survives: not RLIMIT_AS, which it does not. Memory is watched by the warden instead."""
    with suppress(OSError):  # Where the machine runs out of memory all the same, this is what the kernel ends first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    for what, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, box.max_file_bytes),
        (resource.RLIMIT_NOFILE, box.max_open_files),
    ):
        hard = resource.getrlimit(what)[1]
        bounded = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (bounded, bounded))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _closed_to_others(folder: Path) -> bool:
    return any(not parent.stat().st_mode & stat.S_IXOTH for parent in folder.parents)


def drop_privileges(box: Box, namespaced: bool) -> list[str]:
    """Becomes an unprivileged user who owns the scratch folder; notes where that cannot be had."""
    if os.geteuid() != 0:
        return ["user: no privileges to drop"]
    inside_user_namespace = "0 0 4294967295" not in " ".join(Path("/proc/self/uid_map").read_text().split())
    if inside_user_namespace:
        # Root of the namespace could undo every mount that was made in it.
        linux.drop_capabilities()
        return ["user: same user as the harness, in a user namespace"]
    closed = [] if namespaced else [p for p in (box.scratch, *interpreter_folders()) if _closed_to_others(Path(p))]
    if closed:
        # Where folders cannot be shown again by a mount, another user could not even import.
        return [f"user: same user as the harness, since others cannot enter {closed[0]}"]
    scratch_folder.give_away(Path(box.scratch), box.user)  # The candidate's compile may have planted links in it.
    os.setgroups([])
    os.setresgid(box.user, box.user, box.user)
    os.setresuid(box.user, box.user, box.user)
    resource.setrlimit(resource.RLIMIT_NPROC, (box.max_processes, box.max_processes))
    return []
