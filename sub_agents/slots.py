"""Slots: the typed choices of a template, declared by role so that searches and policies can learn over them."""

from typing import Literal

from ..state.base import Record
from ..state.candidate import SlotValue

Role = Literal["configuration", "memory", "compute", "reduction"]


class Slot(Record):
    """One choice. `choices` are ordered: neighbours in the list are neighbours for a local search."""

    name: str
    role: Role
    choices: tuple[SlotValue, ...]
    default: SlotValue
    about: str = ""


Setting = dict[str, SlotValue]
