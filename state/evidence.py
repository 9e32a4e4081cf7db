"""What programs outside the candidate's process saw of it: sanitizers, a profiler, and fresh processes of its own."""

from typing import Literal, Self

from pydantic import Field, model_validator

from .base import Record

SanitizerTool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
KernelKind = Literal["own", "pytorch", "inductor", "cublas", "cudnn", "cutlass", "cub", "copy", "other"]


class Hazard(Record):
    """One fault that a sanitizer reports."""

    kernel: str
    kind: str
    """The tool's own words, as `Invalid __global__ read of size 4 bytes is out of bounds`."""
    size_bytes: int | None = None


class SanitizerResult(Record):
    """What one tool of compute-sanitizer gave on one small workload."""

    tool: SanitizerTool
    outcome: Literal["clean", "hazard", "not run"]
    workload: str = ""
    hazard: Hazard | None = None
    """The first one in a kernel of the candidate's."""
    set_aside: int = Field(default=0, ge=0)
    """Reports that accuse nobody: warnings, and for initcheck other people's kernels."""
    reason: str = ""
    """Why it was not run."""

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if (self.outcome == "hazard") != (self.hazard is not None):
            raise ValueError("a hazard and the word for it go together")
        if (self.outcome == "not run") != bool(self.reason):
            raise ValueError("exactly what was not run has a reason")
        return self


class KernelUse(Record):
    """One kernel of a call, by name."""

    name: str
    kind: KernelKind
    """Whose it is: the candidate's own, or the library that it comes from."""
    launches: int = Field(ge=1)
    """A call."""
    ms: float = Field(ge=0)
    """GPU time a call, all its launches together."""
    share: float = Field(ge=0, le=1)


class ProfilerTiming(Record):
    """The profiler's kernel durations against the judge's timing of the same workload."""

    workload: str
    profiler_ms: float = Field(gt=0)
    """Sum over the kernels of one call; median of the calls."""
    busiest_stream_ms: float = Field(gt=0)
    """Sum over the kernels of the stream with the most work: no call can take less."""
    judge_ms: float = Field(gt=0)
    bound_ms: float = Field(ge=0)
    """By how much the judge's time may lie below the busiest stream's."""
    agrees: bool
    note: str = ""


class Reproduction(Record):
    """The same inputs in fresh processes with different hash seeds."""

    workload: str
    runs: int = Field(ge=0)
    bitwise: bool | None = None
    """Whether all answers are the same bits; None where fewer than two came."""
    within_tolerance: bool | None = None
    reason: str = ""
    """What differs, or why nothing was compared."""


class Evidence(Record):
    """All that was found from outside."""

    sanitizers: tuple[SanitizerResult, ...] = ()
    profiler: ProfilerTiming | None = None
    profiler_reason: str = ""
    """Why there is no profiler's timing, where one was asked for."""
    kernels: tuple[KernelUse, ...] = ()
    """By the profiler where it ran, else as traced inside the candidate's process."""
    kernels_from: Literal["", "profiler", "trace"] = ""
    reproduction: Reproduction | None = None
    notes: tuple[str, ...] = ()
    """Layers of isolation that were not in force while it was gathered."""
    seconds: float = 0.0

    @property
    def libraries(self) -> dict[str, int]:
        """Launches a call of kernels that are not the candidate's own, by where they come from."""
        counted: dict[str, int] = {}
        for kernel in self.kernels:
            if kernel.kind != "own":
                counted[kernel.kind] = counted.get(kernel.kind, 0) + kernel.launches
        return counted
