"""The experience pool: what counts as learnt. One lucky measurement must not teach anybody anything.

A kernel enters once a second, independent measurement has repeated its gain. A later measurement that contradicts it
removes its entry, the change that led to it, and the changes that its descendants were credited with.
"""

import difflib
from collections.abc import Callable, Sequence

from ..state.experience import Change, Experience
from ..state.trajectory import Row
from ..state.wording import counted
from .keeping import GAIN, keepable

TOP, CHANGES, FAILURES = 3, 5, 5
NOTABLE = 1.05
"""A change is kept, and a new best is measured a second time, from this gain on."""
MOST_DIFF_LINES = 60


def needs_confirming(best: Row | None, best_rank_before: float) -> bool:
    """Whether a round's best claims so much that it has to be measured again before anybody learns from it."""
    return best is not None and best.rank > best_rank_before * NOTABLE


def confirms(first_rank: float, second_rank: float, best_rank_before: float) -> bool:
    """Whether a second measurement repeats the gain over what was the best before, beyond noise.

    Where nothing was there before, it must come near to the first.
    """
    if best_rank_before <= 0:
        return 0 < first_rank <= second_rank * NOTABLE
    return second_rank > best_rank_before * GAIN


def experience(
    rows: Sequence[Row],
    source_of: Callable[[str], str],
    messages: Callable[[str], str] = lambda _: "",
) -> Experience:
    """From the trajectory, whose rows say whether a second measurement agreed."""
    by_id = {row.id: row for row in rows}
    out = {row.id for row in rows if row.agreed is False}
    trusted = [row for row in rows if row.agreed and row.rank > 0]
    changes = []
    for row in trusted:
        parent = by_id.get(row.parent)
        if parent is None or parent.rank <= 0 or row.rank < NOTABLE * parent.rank or _ancestors(row, by_id) & out:
            continue
        gain = row.rank / parent.rank - 1
        changes.append(Change(parent=parent.id, candidate=row.id, gain=gain, diff=_diff(parent.id, row.id, source_of)))
    failed = [row for row in rows if not keepable(row, False) and not keepable(row, True)]
    return Experience(
        top=tuple(row.id for row in sorted(trusted, key=lambda row: -row.rank)[:TOP]),
        changes=tuple(changes[-CHANGES:]),
        failures=tuple(f"{row.status.value}: {messages(row.id)}".strip(": ") for row in failed[-FAILURES:]),
    )


def _ancestors(row: Row, by_id: dict[str, Row]) -> set[str]:
    found: set[str] = set()
    parent = row.parent
    while parent in by_id and parent not in found:
        found.add(parent)
        parent = by_id[parent].parent
    return found


def _diff(parent: str, candidate: str, source_of: Callable[[str], str]) -> str:
    old, new = source_of(parent).splitlines(), source_of(candidate).splitlines()
    lines = list(difflib.unified_diff(old, new, parent[:8], candidate[:8], n=1, lineterm=""))
    cut = [f"... {counted(len(lines) - MOST_DIFF_LINES, 'more line')}"] if len(lines) > MOST_DIFF_LINES else []
    return "\n".join(lines[:MOST_DIFF_LINES] + cut)
