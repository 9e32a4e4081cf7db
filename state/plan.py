"""What the planner hands to the writers."""

from pydantic import Field

from .base import Record
from .program import ForwardPlan


class Strategy(Record):
    """One idea worth trying, in the order of expected gain."""

    name: str
    expected_speedup: float = Field(gt=0)
    why: str


class Plan(Record):
    """Strategies in order, and for the offline writers the forward pass as kernel programs."""

    summary: str
    strategies: tuple[Strategy, ...]
    forward: ForwardPlan | None = None
    """None where nothing of the reference is covered by templates; `uncovered` in `summary` says why."""
    library: ForwardPlan | None = None
    """The same with convolutions left to PyTorch's library, where `forward` has some of its own; None elsewhere."""
