"""What failed across runs, counted by template, status and error, with the slots that go with it."""

from pydantic import Field

from .base import Record
from .candidate import SlotValue
from .evaluation import Status


class FailureGroup(Record):
    """Candidates of one template that failed in one way."""

    template: str
    """Name of the template, or for candidates without one where they come from: `llm`, `human`."""
    status: Status
    error: str
    """The decisive line with every number replaced by `#`, so that places and sizes do not part equals."""
    example: str
    """The first such line as it was."""
    count: int = Field(gt=0)
    tried: int = Field(gt=0)
    """Candidates of the template in these runs, failed or not."""
    shared_slots: dict[str, SlotValue] = Field(default_factory=dict)
    """Choices that all of these made and not every candidate of the template did: suspects."""
    slots: dict[str, dict[str, int]] = Field(default_factory=dict)
    """How many of these made each choice, by slot."""
    sources: tuple[str, ...] = ()
    """Their files."""


class Failures(Record):
    """All failures of some runs, the most frequent first."""

    runs: int
    tried: int
    failed: int
    statuses: dict[str, int] = Field(default_factory=dict)
    """Candidates by the status that they failed with."""
    groups: tuple[FailureGroup, ...] = ()
