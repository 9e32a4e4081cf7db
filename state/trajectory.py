"""What a run tried and what came of it: rows for the trajectory, and the result that `report.json` holds."""

from typing import Literal, get_args

from pydantic import Field

from .base import Record
from .candidate import Language, Origin, SlotValue
from .device import DeviceSheet
from .evaluation import Check, Status
from .evidence import Evidence
from .problem import Target
from .spending import Spending
from .timing import Baseline, Timing

Phase = Literal["explore", "rewrite", "tune"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""In order; a run may leave some out."""
StopReason = Literal[
    "",
    "speed_of_light",
    "won_near_speed_of_light",
    "little_left",
    "target_beaten",
    "budget_evaluations",
    "budget_seconds",
    "budget_tokens",
    "budget_money",
    "quota_exhausted",
    "no_gain",
    "nothing_left",
    "interrupted",
]
Outcome = Literal["verified", "estimated", "nothing"]


class Row(Record):
    """One evaluated candidate in a few numbers: this is all that checkpoints hold of it."""

    id: str
    language: Language
    origin: Origin = "template"
    template: str = ""
    parent: str = ""
    phase: Phase
    round: int
    status: Status
    rank: float = 0.0
    """Speedup over the best baseline; an estimate where the status is `unverified`; 0 if it failed."""
    ms: float | None = None
    """Median on the primary workload, or the estimate of a dry run."""
    behind: bool = False
    """Whether it is slower than the baseline on the primary workload, beyond noise."""
    sol_fraction: float | None = None
    structure: str = ""
    """Equal for kernels of one kind, apart from sizes: a digest of templates and strategies, or of a source's marks."""
    bottleneck: str = ""
    """Class of the suspected bottleneck."""
    agreed: bool | None = None
    """Whether a second measurement repeated its gain; None where there was none."""
    asked: str = ""
    """What the writer was asked for: the directive and the tag of the request."""


class StopRule(Record):
    """One rule that can end a search, with its threshold and where the run stood when it ended."""

    name: StopReason
    threshold: float | None = None
    """None where the rule is off or has no number."""
    value: float | None = None
    """What is compared with the threshold; None where it was not measured."""
    fired: bool = False
    about: str = ""


class TrajectoryEntry(Row):
    """A row with what reports show of it besides."""

    slots: dict[str, SlotValue] = Field(default_factory=dict)
    note: str = ""
    message: str = ""
    bottleneck: str = ""
    prompt: str = ""
    """Hash of the prompts that a model was asked with."""


class CheckLine(Record):
    """One line of the final checklist."""

    name: str
    passed: bool | None
    """None where nothing says."""
    evidence: str


class Audit(Record):
    """Below stage `hardened`: what the stage would have handed out, and what the full judge says of it."""

    stage: str
    candidate: str
    claimed: float
    """Speedup that the stage saw."""
    status: Status
    message: str = ""
    measured: float = 0.0
    """Speedup by the full judge; 0 where it was refused."""

    @property
    def wrongly_accepted(self) -> bool:
        return self.measured <= 0


class TargetGap(Record):
    """How far the result is from a published time."""

    target: Target
    comparable: bool
    """Same GPU: only then can it be called beaten."""
    gap: float | None = None
    """Measured time over target time, minus 1: negative is faster. None where nothing was timed on its workload."""
    beaten: bool = False
    note: str = ""


class Result(Record):
    """The outcome of optimising one problem. Everything that a report or a table shows comes from here."""

    problem: str
    problem_id: str
    problem_path: str
    run_dir: str
    outcome: Outcome
    """`verified`: passed on every workload, and again from the file; `estimated`: a dry run's untimed best."""
    stop_reason: StopReason = ""
    stop_rules: tuple[StopRule, ...] = ()
    """Every rule that could have ended the search, with its threshold and the value at the end."""
    complete: bool = True
    """False where the run was interrupted before cross-validation and the final check."""
    best: str | None = None
    """Candidate id."""
    best_path: str | None = None
    language: Language | None = None
    speedup: float | None = None
    """Geometric mean over the workloads, against the best baseline. None unless verified."""
    estimated_sol_fraction: float | None = None
    """Of a dry run's winner, where nothing is timed and so there is no speedup."""
    cross_validation_speedup: float | None = None
    """What cross-validation gave: it chose the winner, so it flatters it a little; `speedup` is the final check's."""
    speedup_over: dict[str, float] = Field(default_factory=dict)
    """Geometric mean over the workloads against `best`, `eager`, `compile`, where these were timed."""
    verdict: str = ""
    """win, tie or loss on the primary workload, by the paired gate."""
    ms: float | None = None
    """Median on the primary workload; the estimate in a dry run."""
    baseline_name: str = ""
    baseline_ms: float | None = None
    eager_ms: float | None = None
    compile_ms: float | None = None
    best_ms_by_language: dict[str, float] = Field(default_factory=dict)
    sol_fraction: float | None = None
    custom_share: float | None = None
    error_class: str = ""
    precision: str = "reference"
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    plan: str = ""
    timings: tuple[Timing, ...] = ()
    checks: tuple[Check, ...] = ()
    checklist: tuple[CheckLine, ...] = ()
    """What the result claims, each line with its evidence; empty without a winner."""
    audit: Audit | None = None
    evidence: Evidence | None = None
    """What sanitizers, fresh processes and the profiler found about the winner."""
    bottleneck: str = ""
    """What probably limits the winner, from the counters of its last verdict where there are any."""
    baselines: tuple[Baseline, ...] = ()
    target: TargetGap | None = None
    tried: int = 0
    statuses: dict[str, int] = Field(default_factory=dict)
    """How many candidates ended in each status."""
    trajectory: tuple[TrajectoryEntry, ...] = ()
    seconds: float = 0.0
    baseline_seconds: float = 0.0
    """Of those, spent on measuring baselines that were not known before."""
    dry_run: bool = False
    device: DeviceSheet | None = None
    models: Spending | None = None
    """What models cost, and what that brought; None where none was asked."""
    warpsmith_version: str = ""
    settings: dict[str, object] = Field(default_factory=dict)

    @property
    def compared(self) -> bool:
        """Whether the best ran at all: a dry run compiles CUDA C++ only."""
        return not (self.dry_run and self.language == "cuda")


class BatchRow(Record):
    """One line of `results.jsonl`."""

    key: str
    """Digest of the problem's source and the settings: a rerun skips rows that have it and did not fail."""
    file: str
    problem_id: str = ""
    ok: bool
    cause: str = ""
    """For a failed row a status or the class of the error."""
    message: str = ""
    outcome: Outcome | Literal["failed"] = "failed"
    language: str = ""
    ms: float | None = None
    baseline_ms: float | None = None
    speedup_over: dict[str, float] = Field(default_factory=dict)
    estimated_sol_fraction: float | None = None
    sol_fraction: float | None = None
    custom_share: float | None = None
    tried: int = 0
    seconds: float = 0.0
    run_dir: str = ""
