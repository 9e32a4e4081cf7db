"""User ids for boxes, one each: what the kernel counts by user (processes above all) no two of them share."""

import itertools
import os

_FIRST = 1 << 30
"""Far above the ids that people, services and containers get."""
_OF_ONE_HARNESS = 1 << 14
_HARNESSES = 1 << 16
_numbers = itertools.count()


def next_user() -> int:
    """An id that no box of this process had lately, and none of another harness on this machine is likely to have."""
    return _FIRST + (os.getpid() % _HARNESSES) * _OF_ONE_HARNESS + next(_numbers) % _OF_ONE_HARNESS
