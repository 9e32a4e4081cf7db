"""User ids for boxes, one each: what the kernel keeps by user (counts of processes, keys) no two of them share."""

import itertools
import secrets

_FIRST = 0x78000000
"""Above what people, services and containers get: systemd gives containers ids up to 1879048191, and SSSD maps a
directory's users to ids below 2000200000."""
_AFTER_LAST = 0x7FFE0000
"""From here on systemd puts users of other machines."""
_COUNT = _AFTER_LAST - _FIRST
_numbers = itertools.count(secrets.randbelow(_COUNT))
"""From a place of its own on: harnesses in several containers may all be process 7, and the kernel keeps one count."""


def next_user() -> int:
    """An id that no box of this process had, and none of another harness on this machine is likely to have."""
    return _FIRST + next(_numbers) % _COUNT
