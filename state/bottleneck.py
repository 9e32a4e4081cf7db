"""What probably limits a kernel: classes, findings with their evidence, and all findings on one candidate."""

from typing import Literal

from pydantic import Field

from .base import Record

BottleneckClass = Literal[
    "launch",
    "outside",
    "speed_of_light",
    "tensor_cores_unused",
    "bank_conflicts",
    "uncoalesced",
    "spills",
    "partial_wave",
    "memory",
    "cache",
    "compute",
    "tail",
    "occupancy",
    "scalar_loads",
    "latency",
]
"""`latency` is what is left: nothing is saturated and nothing else explains it."""


class Finding(Record):
    """One thing that a rule saw."""

    bottleneck: BottleneckClass
    kernel: str = ""
    """Name of the kernel that it is about; empty where it is about the whole call."""
    evidence: str
    """The numbers behind it, in words."""
    hint: str
    """A direction, never an instruction: what such kernels gain from."""
    source: str
    """Where the rule and its thresholds come from."""

    @property
    def text(self) -> str:
        """One line: class, evidence, hint."""
        return f"{self.bottleneck.replace('_', ' ')}: {self.evidence}; {self.hint}"


class Diagnosed(Record):
    """All findings on one candidate, the suspected bottleneck first."""

    candidate: str
    findings: tuple[Finding, ...] = ()
    sol_fraction: float | None = Field(default=None, ge=0, le=1)
    """Speed of light over its time on the primary workload, in [0, 1]; None where neither is known."""
    estimated: bool = False
    """The fraction is a dry run's: no clock is behind it."""
    profiled: bool = False
    """Hardware counters were there; otherwise only what compiling and timing tell."""

    @property
    def bottleneck(self) -> BottleneckClass | None:
        return self.findings[0].bottleneck if self.findings else None

    @property
    def text(self) -> str:
        """The suspected bottleneck in one line; empty where none is known."""
        return self.findings[0].text if self.findings else ""
