"""A small set of settings in which every legal pair of choices of any two slots occurs at least once."""

from collections.abc import Callable, Iterator
from itertools import combinations
from random import Random

from ...state.candidate import SlotValue
from ..slots import Setting, Slot

Pair = tuple[tuple[str, SlotValue], tuple[str, SlotValue]]
_TRIES = 60
"""Random completions of a pair before it counts as illegal."""


def pairwise(slots: tuple[Slot, ...], legal: Callable[[Setting], bool], rng_seed: int = 0) -> Iterator[Setting]:
    """Legal settings that cover all pairs which some legal setting has. The defaults come first if they are legal."""
    rng = Random(rng_seed)
    missing = dict.fromkeys(_pairs(slots))
    defaults: Setting = {slot.name: slot.default for slot in slots}
    if legal(defaults):
        _cross_off(missing, defaults)
        yield defaults
    if len(slots) == 1:
        yield from ({slots[0].name: c} for c in slots[0].choices if c != slots[0].default and legal({slots[0].name: c}))
    while missing:
        pair = next(iter(missing))
        setting = _completed(slots, pair, missing, legal, rng)
        if setting is None:
            del missing[pair]
            continue
        _cross_off(missing, setting)
        yield setting


def _pairs(slots: tuple[Slot, ...]) -> Iterator[Pair]:
    for one, other in combinations(slots, 2):
        for a in one.choices:
            for b in other.choices:
                yield (one.name, a), (other.name, b)


def _cross_off(missing: dict[Pair, None], setting: Setting) -> None:
    for pair in combinations(setting.items(), 2):
        missing.pop(pair, None)


def _completed(
    slots: tuple[Slot, ...], pair: Pair, missing: dict[Pair, None], legal: Callable[[Setting], bool], rng: Random
) -> Setting | None:
    """The legal setting with this pair, of some random ones, that covers most of what is missing."""
    best: Setting | None = None
    most = -1
    found = 0
    for attempt in range(_TRIES):
        fixed = dict(pair)
        # Defaults are likely to be legal, so some attempts stay close to them.
        near = attempt % 3 == 0
        setting = {
            slot.name: fixed.get(slot.name, slot.default if near and rng.random() < 0.7 else rng.choice(slot.choices))
            for slot in slots
        }
        if not legal(setting):
            continue
        new = sum(each in missing for each in combinations(setting.items(), 2))
        if new > most:
            best, most = setting, new
        found += 1
        if found == 12:
            break
    return best
