"""Lists of choices for a kernel step that a search asks for as a whole: every kind once, a small grid, one slot."""

from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import prod
from random import Random

from . import slot_moves
from .slots import Slot
from .step_space import HOPELESS, MATHEMATICS, Choice, StepSpace, in_turn, moves_of

SMALL_GRID = 48
"""Settings up to which a template's whole space is tried rather than sampled."""


def kinds(space: StepSpace, rng: Random) -> Iterator[Choice]:
    """Every template with each of its kinds once (tiling, load style, passes, splits), and the usual block sizes.

    What the cost model rules out is left out.
    """
    defaults = space.promising()
    least = min(map(space.estimated_ms, defaults), default=0.0)
    streams = [iter(defaults)]
    for choice in defaults:
        slots = space.slots(choice.template)
        legal = space.legal(choice.template)
        sizes = islice(slot_moves.spread(slots, legal, rng, 16), len(slot_moves.BLOCK_SIZES))
        streams.append(iter([Choice.of(choice.template, setting) for setting in sizes]))
        moved = [{**choice.values, slot.name: other} for slot in slots if _names_a_kind(slot) for other in slot.choices]
        streams.append(iter([Choice.of(choice.template, setting) for setting in moved if legal(setting)]))
    seen = set()
    for choice in in_turn(streams):
        if choice not in seen and space.estimated_ms(choice) <= HOPELESS * least:
            seen.add(choice)
            yield choice


def _names_a_kind(slot: Slot) -> bool:
    """Words, and numbers that say how work is split; not switches of accuracy."""
    if slot.name in MATHEMATICS or len(slot.choices) < 2:
        return False
    return slot.name == "tile" or slot.role == "reduction" or any(isinstance(each, str) for each in slot.choices)


def small_grid(space: StepSpace, choice: Choice) -> list[Choice]:
    """All legal settings of the choice's template, the cheapest by the cost model first; none where there are many."""
    slots = [slot for slot in space.slots(choice.template) if slot.name not in MATHEMATICS]
    if prod(len(slot.choices) for slot in slots) > SMALL_GRID:
        return []
    legal = space.legal(choice.template)
    settings = (
        {**choice.values, **dict(zip([slot.name for slot in slots], values, strict=True))}
        for values in product(*(slot.choices for slot in slots))
    )
    found = [Choice.of(choice.template, setting) for setting in settings if legal(setting)]
    return sorted(found, key=space.estimated_ms)


def one_slot(
    spaces: dict[str, StepSpace], steps: Sequence[str], at: dict[str, Choice], ordinal: int
) -> list[tuple[str, str, Choice]]:
    """Every other choice of one slot, the nearest first, as (step, slot, choice): the slot of that number, in turn."""
    movable = [
        (step, slot) for step in steps for slot in spaces[step].slots(at[step].template) if len(slot.choices) > 1
    ]
    if not movable:
        return []
    step, slot = movable[ordinal % len(movable)]
    moves = moves_of(spaces[step], at[step], len(slot.choices))
    now = at[step].values[slot.name]
    return [(step, slot.name, choice) for _, choice in moves if choice.values[slot.name] != now]
