"""What a writer is told about an evaluation: always the same five fields."""

from typing import Literal

from .base import Record
from .evaluation import Status

Trend = Literal["better", "worse", "level", "first", "failed"]


class Feedback(Record):
    """The five fields, for one candidate."""

    candidate: str
    status: Status | Literal["below_target"]
    error_digest: str
    """The decisive compiler line, or the worst error and where; empty if it passed."""
    time: str
    """This time, best time and the gap in percent, as text; empty if it was not timed."""
    trend: Trend
    """Against its parent, beyond noise."""
    bottleneck: str
    """Suspected bottleneck class and why; empty if unknown."""
