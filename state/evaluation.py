"""The verdict on a candidate, with the evidence that the verdict needs. Anything else does not construct."""

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from .base import Record
from .evidence import Evidence
from .sass import SassFacts
from .scores import geometric_mean
from .timing import Timing

Tier = Literal["dry", "quick", "full", "record"]
Place = Literal["", "whole", "tail", "border", "tile_edge", "one_channel", "one_element", "scattered"]
"""Where the wrong elements of an output lie, by class."""


class Status(StrEnum):
    """What the harness found. Exactly one applies."""

    PASSED = "passed"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    INCORRECT_SHAPE = "incorrect_shape"
    INCORRECT_DTYPE = "incorrect_dtype"
    INCORRECT_STRUCTURE = "incorrect_structure"
    INCORRECT_NUMERICAL = "incorrect_numerical"
    NONDETERMINISTIC = "nondeterministic"
    TIMEOUT = "timeout"
    RESOURCE = "resource"
    REWARD_HACK = "reward_hack"
    CONTRACT_ERROR = "contract_error"
    UNSAFE = "unsafe"
    UNVERIFIED = "unverified"
    INFRA_ERROR = "infra_error"


class KernelResources(Record):
    """Static facts of one compiled kernel."""

    name: str
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    """A block's, with what a launch adds."""
    num_warps: int | None = None
    blocks: int | None = None
    """Blocks of its largest launch on the primary workload; None where no launch was traced."""
    theoretical_occupancy: float | None = None
    """Resident warps over the most that fit on a multiprocessor, in [0, 1]."""
    limiter: str = ""
    """What keeps more warps from fitting: `registers`, `shared memory`, `blocks` or `warps`."""
    sass: SassFacts | None = None


class CompileReport(Record):
    """What compiling gave. `seconds` is near 0 on a cache hit."""

    ok: bool
    seconds: float
    cached: bool = False
    kernels: tuple[KernelResources, ...] = ()
    error: str = ""
    """The first error whole, the rest trimmed."""
    warnings: str = ""


class Check(Record):
    """One comparison of the candidate's output with the oracle on one input draw."""

    workload: str
    draw: str
    passed: bool
    error_rms: float | None = None
    """Root mean square of candidate minus oracle, over rms of the oracle."""
    bound_rms: float | None = None
    reference_rms: float | None = None
    """The reference's own error on the same draw."""
    worst: str = ""
    """Where the worst element is and what it is; empty if all is well."""
    place: Place = ""
    """Where the wrong elements lie, by class: told of hidden workloads too, as it gives neither shape nor position."""
    hidden: bool = False
    """A hidden workload: reports for writers give its class only, never its shape or position."""


class Estimate(Record):
    """A dry run's guess: from compiled resources and a cost model, never from a clock."""

    ms: float
    sol_fraction: float
    """What share of it the speed of light would take, on the workload that was looked at."""
    basis: str


class Evaluation(Record):
    """One candidate's verdict on one problem."""

    candidate: str
    problem: str
    status: Status
    tier: Tier
    message: str = ""
    """One line on what decided the status; the decisive compiler line or exception for errors."""
    compile: CompileReport | None = None
    checks: tuple[Check, ...] = ()
    timings: tuple[Timing, ...] = ()
    error_class: str = ""
    """Measured class of the error: `fp64`, `fp32`, `tf32`, `bf16` or `worse`."""
    custom_share: float | None = Field(default=None, ge=0, le=1)
    """Share of GPU time in the candidate's own kernels; None where it was not measured."""
    kernels: dict[str, float] = Field(default_factory=dict)
    """GPU time in ms a call by kernel name."""
    labels: tuple[str, ...] = ()
    """Facts that do not decide: `not_bitwise_reproducible`, `launch_bound`, `shape_specialised`, `torch_only`..."""
    notes: tuple[str, ...] = ()
    """Detector findings and sandbox gaps, for people."""
    estimate: Estimate | None = None
    evidence: Evidence | None = None
    """What sanitizers, a profiler and fresh processes saw, at the tiers that ask them."""
    seconds: float = 0.0
    """Wall time of the evaluation."""
    stage_seconds: dict[str, float] = Field(default_factory=dict)
    """Wall time by stage: spawn, prepare, check, time, trace, end."""

    @model_validator(mode="after")
    def _evidence_fits_status(self) -> Self:
        failed = [check for check in self.checks if not check.passed]
        if self.status is Status.PASSED:
            if not self.checks or failed:
                raise ValueError("passed needs checks, all of them passed")
            if not self.timings or not all(t.stable for t in self.timings):
                raise ValueError("passed needs stable timings")
            if self.compile is not None and not self.compile.ok:
                raise ValueError("passed contradicts a failed compile")
        elif self.status is Status.COMPILE_ERROR:
            if self.compile is None or self.compile.ok:
                raise ValueError("compile_error needs a failed compile report")
        elif self.status is Status.INCORRECT_NUMERICAL and not failed:
            raise ValueError("incorrect_numerical needs a failed check")
        if self.status not in (Status.PASSED, Status.UNVERIFIED) and self.timings:
            raise ValueError(f"{self.status} must not carry timings")
        if self.status is not Status.PASSED and not self.message:
            raise ValueError(f"{self.status} needs a message")
        return self

    @property
    def correct(self) -> bool:
        """Numerically verified on at least one draw."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def score(self) -> float:
        """The one number that ranks kernels: geometric mean of speedups over workloads; 0 unless passed."""
        if self.status is not Status.PASSED:
            return 0.0
        return geometric_mean(timing.speedup for timing in self.timings)

    @property
    def rank(self) -> float:
        """`score`, or for a dry run's candidates the estimated fraction of the speed of light; 0 for what failed."""
        if self.status is Status.UNVERIFIED and self.estimate is not None:
            return self.estimate.sol_fraction
        return self.score

    @property
    def primary(self) -> Timing | None:
        """Timing on the primary workload."""
        return self.timings[0] if self.timings else None
