"""The pairwise cover."""

from itertools import combinations, product

from warpsmith.sub_agents.slots import Setting, Slot
from warpsmith.sub_agents.templates.pairwise import pairwise

SLOTS = (
    Slot(name="a", role="configuration", choices=(1, 2, 4, 8), default=2),
    Slot(name="b", role="memory", choices=("x", "y", "z"), default="x"),
    Slot(name="c", role="compute", choices=(True, False), default=True),
    Slot(name="d", role="reduction", choices=(1, 2, 3), default=1),
)


def legal(setting: Setting) -> bool:
    return not (setting["a"] == 8 and setting["b"] == "z") and not (setting["c"] is False and setting["d"] == 3)


def pairs(settings: list[Setting]) -> set[object]:
    return {pair for setting in settings for pair in combinations(setting.items(), 2)}


def test_every_pair_that_a_legal_setting_has_is_covered_and_nothing_illegal_is_given() -> None:
    everything = [dict(zip("abcd", values, strict=True)) for values in product(*(s.choices for s in SLOTS))]
    cover = list(pairwise(SLOTS, legal))
    assert all(legal(setting) for setting in cover)
    assert pairs(cover) == pairs([setting for setting in everything if legal(setting)])


def test_the_cover_is_much_smaller_than_the_space_and_starts_with_the_defaults() -> None:
    cover = list(pairwise(SLOTS, legal))
    assert cover[0] == {"a": 2, "b": "x", "c": True, "d": 1}
    assert len(cover) <= 20 < 4 * 3 * 2 * 3


def test_a_single_slot_gives_each_of_its_choices_once() -> None:
    assert list(pairwise(SLOTS[:1], lambda _: True)) == [{"a": 2}, {"a": 1}, {"a": 4}, {"a": 8}]
