"""Measured run times. Every time is GPU time of one forward call in milliseconds unless the name says otherwise."""

from pydantic import Field

from .base import Record


class Sample(Record):
    """Median and spread of one side of a measurement."""

    median_ms: float = Field(gt=0)
    std_ms: float = Field(ge=0)
    low_ms: float = Field(gt=0)
    """Lower end of the 95% confidence interval of the median (order statistics)."""
    high_ms: float = Field(gt=0)
    count: int = Field(gt=0)


class Timing(Record):
    """One candidate against the interleaved baseline on one workload."""

    workload: str
    candidate: Sample
    baseline: Sample
    """The best baseline at the reference's precision, timed in alternation with the candidate."""
    baseline_name: str
    speedup: float = Field(gt=0)
    """Median of baseline over median of candidate."""
    verdict: str = Field(pattern="^(win|tie|loss)$")
    """By the paired gate: the 95% interval of the paired ratio lies above, around or below 1."""
    stable: bool
    note: str = ""
    """Why it is unstable, launch-bound or otherwise to be read with care."""
    wall_ms: float | None = None
    """The judge's own clock over the same calls, per call, hop removed."""
    first_call_ms: float | None = None
    setup_ms: float | None = None
    """Construction and weight preparation, timed apart."""
    floor_ms: float
    """Void bound: nothing correct is faster."""
    sol_ms: float
    """Speed of light: time at measured bandwidth and matrix rates."""
    sm_clock_mhz: int | None = None

    @property
    def sol_fraction(self) -> float:
        """`sol_ms / candidate_ms`, capped at 1."""
        return min(1.0, self.sol_ms / self.candidate.median_ms)


class Baseline(Record):
    """One way to run the reference, with its own time."""

    name: str
    """`eager`, `compile`, `max-autotune`, `cuda-graphs` (shown apart), or a name from the problem's `baselines`."""
    workload: str
    ms: float | None
    std_ms: float = 0.0
    error: str = ""
    """Why there is no time: one line."""
    build_seconds: float = 0.0


class Baselines(Record):
    """All baselines of a problem on one GPU with one set of versions."""

    problem_id: str
    gpu: str
    versions: dict[str, str]
    entries: tuple[Baseline, ...]
    measured_seconds: float = 0.0
    """Wall time just now of measuring what no file had, and of building the best again to time candidates beside it."""

    def best(self, workload: str) -> Baseline:
        """The fastest that counts (CUDA graphs do not). Raises ValueError if none has a time."""
        timed = [e for e in self.entries if e.workload == workload and e.ms is not None and e.name != "cuda-graphs"]
        return min(timed, key=lambda e: e.ms or 0.0)

    def ms(self, name: str, workload: str) -> float | None:
        """Time of one baseline, None where it was not or could not be measured."""
        return next((e.ms for e in self.entries if e.name == name and e.workload == workload), None)
