"""What a run has learnt so far and trusts: a small part of its history, everything else stays in the run directory."""

from .base import Record


class Change(Record):
    """A change to a kernel that gained, twice measured."""

    parent: str
    candidate: str
    gain: float
    """Of the candidate over its parent, as a share: 0.08 is 8% faster."""
    diff: str
    """Unified diff of the sources, cut where it is long."""


class Experience(Record):
    """The pool of experience."""

    top: tuple[str, ...] = ()
    """Ids of the three best kernels whose gain was measured twice, best first."""
    changes: tuple[Change, ...] = ()
    """The five newest changes that gained more than 5%, the newest last."""
    failures: tuple[str, ...] = ()
    """The last five failures, one line each, the newest last."""
