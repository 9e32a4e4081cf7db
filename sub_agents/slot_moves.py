"""Moves in a template's slot space: where a search starts, spreads and steps. Pure and deterministic."""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product
from random import Random

from ..state.candidate import SlotValue
from .slots import Setting, Slot

Legal = Callable[[Setting], bool]
BLOCK_SIZES = (128, 256, 512)
"""Sizes that every spread covers, whatever the default."""
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)


def defaults(slots: tuple[Slot, ...]) -> Setting:
    return {slot.name: slot.default for slot in slots}


def halton(index: int, base: int) -> float:
    """The radical inverse of `index` in `base`, in [0, 1)."""
    result, fraction = 0.0, 1.0 / base
    while index:
        index, digit = divmod(index, base)
        result += digit * fraction
        fraction /= base
    return result


def spread(slots: tuple[Slot, ...], legal: Legal, rng: Random, count: int) -> Iterator[Setting]:
    """Up to `count` legal settings that cover the space evenly (Halton points, rotated by the generator).

    The first of them have the `BLOCK_SIZES` in turn where there is a slot `block_size` that has them.
    """
    rotation = [rng.random() for _ in slots]
    forced = [size for size in BLOCK_SIZES if any(s.name == "block_size" and size in s.choices for s in slots)]
    made = index = 0
    while made < count and index < 40 * count + 40:
        index += 1
        setting: Setting = {}
        for slot, shift, base in zip(slots, rotation, _PRIMES * 2, strict=False):
            place = (halton(index, base) + shift) % 1.0
            setting[slot.name] = slot.choices[int(place * len(slot.choices))]
        if forced:
            setting["block_size"] = forced[0]
        if legal(setting):
            forced = forced[1:]
            made += 1
            yield setting
        elif forced and index % 60 == 0:
            forced = forced[1:]


def neighbours(slots: tuple[Slot, ...], setting: Setting, reach: int) -> list[Setting]:
    """Settings that differ in one slot by at most `reach` places among its choices, the nearest first."""
    moved: list[tuple[int, Setting]] = []
    for slot in slots:
        if len(slot.choices) < 2:
            continue
        at = place(slot, setting[slot.name])
        for distance in range(1, reach + 1):
            for to in (at + distance, at - distance):
                if 0 <= to < len(slot.choices):
                    moved.append((distance, {**setting, slot.name: slot.choices[to]}))
    return [each for _, each in sorted(moved, key=lambda pair: pair[0])]


def place(slot: Slot, value: SlotValue) -> int:
    """Where a value stands among the choices; the nearest number, or the default's place, if it does not."""
    if value in slot.choices:
        return slot.choices.index(value)
    numbers = [c for c in slot.choices if isinstance(c, int) and not isinstance(c, bool)]
    if isinstance(value, int) and not isinstance(value, bool) and numbers:
        return slot.choices.index(min(numbers, key=lambda c: abs(c - value)))
    return slot.choices.index(slot.default)


def carried(slots: tuple[Slot, ...], seed: Mapping[str, SlotValue]) -> Setting:
    """Defaults, with the seed's value (or the nearest choice) wherever it has a slot of the same name."""
    return {s.name: s.choices[place(s, seed[s.name])] if s.name in seed else s.default for s in slots}


def nearest_legal(slots: tuple[Slot, ...], setting: Setting, legal: Legal) -> Setting | None:
    """The setting itself, or the legal one with the fewest slots moved, by the fewest steps; None beyond two slots."""
    if legal(setting):
        return setting
    places = {slot.name: place(slot, setting[slot.name]) for slot in slots}
    for moved in (1, 2):
        found: list[tuple[int, Setting]] = []
        for several in combinations(slots, moved):
            for values in product(*(slot.choices for slot in several)):
                change = {slot.name: value for slot, value in zip(several, values, strict=True)}
                steps = sum(abs(place(slot, change[slot.name]) - places[slot.name]) for slot in several)
                found.append((steps, {**setting, **change}))
        for _, candidate in sorted(found, key=lambda pair: pair[0]):
            if legal(candidate):
                return candidate
    return None
