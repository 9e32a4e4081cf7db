"""Hardware counters of a candidate, or the reason why there are none."""

from pydantic import Field

from .base import Record


class KernelProfile(Record):
    """Counters of one kernel launch, by Nsight Compute metric name; shares and fractions in [0, 1]."""

    name: str
    kind: str = ""
    """`own`, or the library that it comes from (`state.evidence.KernelKind`); empty where nobody told them apart."""
    stream: str = ""
    """The profiler's number of the stream that it ran on."""
    grid: str = ""
    """Blocks as the profiler writes them: `(4096, 1, 1)`."""
    duration_ms: float
    share: float = Field(ge=0, le=1)
    metrics: dict[str, float] = Field(default_factory=dict)


class Profile(Record):
    """What profiling a candidate gave. `reason` is set exactly where there are no kernels."""

    candidate: str
    kernels: tuple[KernelProfile, ...] = ()
    reason: str = ""
    """`not profiled (no permission)`, `not profiled (no GPU)`..."""
