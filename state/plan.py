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
    apart: ForwardPlan | None = None
    """The same without convolutions and attention of its own: by PyTorch's library, or in kernels for their parts. None
    where `forward` has neither."""
