"""One pairwise cover over several programs that a template is compiled for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from warpsmith.sub_agents.slots import Setting, Slot
from warpsmith.sub_agents.templates.pairwise import pairwise


def cover_over(cases: Mapping[str, tuple[Sequence[Slot], Callable[[Setting], bool]]]) -> Iterator[tuple[str, Setting]]:
    """(case, setting): every pair of choices that is legal in some case, at the first case that allows it.

    A whole cover for each case would compile several times as many kernels for pairs that are compiled already.
    """
    seen: set[object] = set()
    for case, (slots, legal) in cases.items():
        for setting in pairwise(tuple(slots), legal):
            pairs = set(combinations(sorted(setting.items()), 2))
            if pairs - seen:
                seen |= pairs
                yield case, setting
