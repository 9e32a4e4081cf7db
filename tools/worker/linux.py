"""The few Linux calls that isolation needs and Python 3.11 does not wrap."""

import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38

_PR_CAPBSET_DROP, _CAPABILITIES, _CAPABILITY_VERSION_3 = 24, 64, 0x20080522
_SYS_MOUNT_SETATTR = 442
_SYS_KEYCTL, _SYS_KEYCTL_X86 = 219, 250
_JOIN_SESSION_KEYRING = 1
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_MOUNT_ATTR = struct.Struct("QQQQ")

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Moves this process into new namespaces. Raises OSError where the kernel does not grant them."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """mount(2). Raises OSError."""
    arguments = [source.encode(), target.encode(), kind.encode(), flags, data.encode()]
    _check(_libc.mount(*arguments[:3], ctypes.c_ulong(flags), arguments[4]), f"mount {target}")


def make_read_only(target: str) -> None:
    """Makes a mount and all mounts below it read-only, in this mount namespace. Raises OSError (Linux before 5.12)."""
    _set_attributes(target, _AT_RECURSIVE, added=_MOUNT_ATTR_RDONLY, removed=0)


def make_writable(target: str) -> None:
    """Undoes that for one mount, and leaves its other restrictions alone: some cannot be lifted. Raises OSError."""
    _set_attributes(target, 0, added=0, removed=_MOUNT_ATTR_RDONLY)


def _set_attributes(target: str, flags: int, added: int, removed: int) -> None:
    attributes = _MOUNT_ATTR.pack(added, removed, 0, 0)
    arguments = (_SYS_MOUNT_SETATTR, _AT_FDCWD, target.encode(), flags, attributes, len(attributes))
    _check(int(_libc.syscall(*arguments)), f"mount_setattr {target}")


def bring_up_loopback() -> None:
    """Makes 127.0.0.1 answer in this network namespace. Raises OSError without the right to."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def join_new_keyring() -> None:
    """Leaves the session's keyring, which all processes since a login or a container's start may share, for an empty
    one. Raises OSError."""
    number = _SYS_KEYCTL_X86 if os.uname().machine == "x86_64" else _SYS_KEYCTL
    _check(min(0, int(_libc.syscall(number, _JOIN_SESSION_KEYRING, None))), "keyctl")


def drop_capabilities() -> None:
    """Gives up every capability for good, also those that a program run as root would get back. Raises OSError."""
    for capability in range(_CAPABILITIES):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # past the last one that this kernel knows
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0))
    _check(_libc.capset(header, ctypes.create_string_buffer(24)), "capset")


def prctl_death_signal(signal_number: int) -> None:
    """This process gets the signal when its parent dies."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def prctl_dumpable() -> None:
    """Undoes what a change of user does to a process: it may look at itself again under /proc."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")


def prctl_subreaper() -> None:
    """Orphaned descendants become children of this process instead of escaping to init."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def prctl_no_new_privileges() -> None:
    """No setuid binary can raise privileges from here on."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
