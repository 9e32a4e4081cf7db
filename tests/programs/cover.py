"""Few settings that still meet much: a pairwise cover over several programs, and every choice of one program."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from warpsmith.sub_agents.slots import Setting, Slot
from warpsmith.sub_agents.templates.pairwise import pairwise

Legal = Callable[[Setting], bool]


def cover_over(cases: Mapping[str, tuple[Sequence[Slot], Legal]]) -> Iterator[tuple[str, Setting]]:
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


def single_changes(slots: Sequence[Slot], legal: Legal) -> list[Setting]:
    """The legal settings that are the default in all slots but one."""
    first: Setting = {slot.name: slot.default for slot in slots}
    made = [{**first, slot.name: choice} for slot in slots for choice in slot.choices if choice != slot.default]
    return [setting for setting in made if legal(setting)]


def every_choice(slots: Sequence[Slot], legal: Legal, turn: int = 0) -> Iterator[Setting]:
    """Legal settings in which each choice that is legal alone occurs, as many of them in one setting as may be.

    A third as many kernels as one for each change. Each `turn` puts other choices together, so that over several
    programs what one choice hides in another comes to light.
    """
    first: Setting = {slot.name: slot.default for slot in slots}
    missing: dict[str, list[Setting]] = {}
    for change in single_changes(slots, legal):
        name = next(name for name in change if change[name] != first[name])
        missing.setdefault(name, []).append({name: change[name]})
    for place, changes in enumerate(missing.values()):
        shift = turn * (place + 1) % len(changes)
        changes[:] = changes[shift:] + changes[:shift]
    while missing:
        names = list(missing)
        start = turn % len(names)
        setting = first
        for name in names[start:] + names[:start]:
            change = next((change for change in missing[name] if legal({**setting, **change})), None)
            if change is not None:
                setting = {**setting, **change}
                missing[name].remove(change)
        missing = {name: changes for name, changes in missing.items() if changes}
        yield setting
