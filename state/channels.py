"""The graph's channels: what goes in, what a checkpoint holds, what comes out, and the settings of a run.

Checkpoints are written after every step, so state holds ids, numbers and small records; sources and evaluations lie
in the run directory by content id, as does the trajectory's whole table.
"""

import operator
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from .base import Record
from .brief import Directive
from .candidate import Language
from .feedback import Feedback
from .trajectory import Outcome, Phase, Row, StopReason

Languages = Literal["triton", "cuda", "both"]
Stage = Literal["one-shot", "correctness", "profiler", "search", "hardened"]
WriterKind = Literal["auto", "offline", "hybrid", "llm", "human"]


class Context(BaseModel):
    """Settings of a run. They never change while it runs and are not part of the state."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    languages: Languages = Field(
        default="both", title="Languages", description="Triton, CUDA, or explore in Triton and rewrite the best in CUDA"
    )
    budget: int = Field(default=18, ge=1, le=10_000, title="Evaluations", description="Most candidates to evaluate")
    seconds: float = Field(default=600.0, gt=0, title="Seconds", description="Wall time after which no round starts")
    seed: int = Field(default=0, ge=0, title="Seed", description="Seed of every random choice of the search")
    width: int = Field(default=4, ge=1, le=64, title="Width", description="Candidates proposed a round")
    patience: int = Field(
        default=0, ge=0, title="Patience", description="Rounds without gain that end a phase; 0: by the budget"
    )
    strategy: str = Field(default="phased", title="Strategy", description="How the search chooses what to try next")
    stage: Stage = Field(
        default="hardened", title="Stage", description="Which parts of the controller are on; hardened: all of them"
    )
    stop_at_sol: float = Field(
        default=0.95, gt=0, le=1, title="Speed of light", description="Fraction at which to stop if every workload wins"
    )
    stop_at_sol_alone: float = Field(
        default=0.98, gt=0, le=1, title="Speed of light, tied", description="Fraction at which to stop in any case"
    )
    writer: WriterKind = Field(
        default="auto",
        title="Writer",
        description="Who writes kernels; auto: hybrid with a model, else offline",
    )
    model: str | None = Field(default=None, title="Model", description="Name of a model at the endpoint")
    models: dict[str, str] = Field(
        default={},
        title="Models by role",
        description="Other models for planner, triton_writer, cuda_writer or repairer",
    )
    base_url: str | None = Field(
        default=None,
        title="Base URL",
        description="Address of an OpenAI-compatible endpoint; the key is OPENAI_API_KEY",
    )
    prices: dict[str, dict[str, float]] = Field(
        default={},
        title="Prices",
        description="By model: `prompt` and `completion`, per million tokens, in one currency",
    )
    conversations: int = Field(
        default=2, ge=1, le=16, title="Conversations", description="Kernels that a model is asked for at the same time"
    )
    answer_seconds: float = Field(
        default=300.0, gt=0, le=7200, title="Answer seconds", description="Longest wait for one answer of a model"
    )
    tokens: int | None = Field(default=None, ge=1, title="Tokens", description="Most tokens to spend on models")
    money: float | None = Field(default=None, gt=0, title="Money", description="Most money to spend on models")
    confirm: bool = Field(
        default=True, title="Confirm", description="Measure a notable gain a second time before learning from it"
    )
    fits: int = Field(
        default=2,
        ge=0,
        le=16,
        title="Fits",
        description="Kernels tried for each other size that the best falls short at; no part of the budget",
    )
    finalists: int = Field(default=1, ge=1, le=8, title="Finalists", description="Candidates to cross-validate")
    profiles: int = Field(default=1, ge=0, title="Profiles", description="Most candidates to profile (seconds each)")
    max_concurrency: int = Field(
        default=6, ge=1, le=64, title="Concurrency", description="Candidates compiled at the same time"
    )
    dry_run: bool | None = Field(
        default=None, title="Dry run", description="True: never use a GPU; false: need one; empty: by what is there"
    )
    require_gpu: bool = Field(default=False, title="Require GPU", description="Fail where there is no GPU")
    arch: str = Field(
        default="sm_90", pattern=r"^sm_\d+a?$", title="Architecture", description="Target of a dry run, as sm_90"
    )
    gpu: int = Field(default=0, ge=0, title="GPU", description="Index of the GPU to measure on")
    baselines: str | None = Field(
        default=None, title="Baselines file", description="File of cached baseline times, read and added to"
    )
    library: str | None = Field(
        default=None, title="Library", description="File of verified kernels of earlier runs, read and added to"
    )
    out: str = Field(default="runs", title="Output folder", description="Folder that run directories are made in")
    record: str | None = Field(
        default=None, title="Record to", description="File to record every answer of the harness in, for a replay"
    )
    replay: str | None = Field(
        default=None, title="Replay from", description="Recording to answer from, in place of a harness and writers"
    )
    pace: float = Field(
        default=0.0, ge=0, title="Replay pace", description="Share of the recorded seconds that a replay waits"
    )


class RunInput(BaseModel):
    """What a run starts from."""

    problem: str = Field(
        title="Problem file",
        description="Path of a Python file with a PyTorch reference: Model, get_inputs, get_init_inputs",
        examples=["problems/softmax.py"],
    )
    run_dir: str = Field(default="", title="Run directory", description="Empty: a new one in the output folder")


class Diagnosis(Record):
    """Suspected bottleneck of one candidate."""

    candidate: str
    bottleneck: str


class WriterRequest(Record):
    """What one writer is asked for in a round."""

    language: Language
    directive: Directive
    n: int = Field(ge=1)
    temperature: float = Field(default=1.0, ge=0)
    rng_seed: int = 0
    seeds: tuple[str, ...] = ()
    """Ids to start from, where they differ from the round's."""
    spread: bool = False
    """Kernels of many kinds, not only the most promising ones."""
    vary: int | None = None
    """Ordinal of the one slot to move far, counted over the slots of the seed; None: any."""
    part: int = 0
    """Its number within the round, by which twins are told apart: the first to ask for a candidate has made it."""
    tag: str = ""
    """Whose request it is, where a strategy keeps several lines apart; candidates carry it on."""


class ProposeTask(Record):
    """A request with the ids that its brief is made of."""

    run_dir: str
    request: WriterRequest
    round: int = 0
    seeds: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    known: int = 0
    """How many rows of the trajectory the writer knows of: ids of all would fill checkpoints."""
    feedback: tuple[Feedback, ...] = ()
    repairs: bool = True
    """The last round's failures are this request's to repair: those of one language are handed out once."""


class EvaluateTask(Record):
    """One candidate to judge."""

    run_dir: str
    candidate: str
    phase: Phase
    round: int


class State(RunInput):
    """All that is known in a run, in ids and numbers."""

    problem_name: str = Field(default="", description="Name of the problem")
    problem_id: str = Field(default="", description="Content hash of the problem")
    dry_run: bool = Field(default=False, description="No GPU: everything is estimated")
    notes: tuple[str, ...] = Field(default=(), description="What vetting and planning found")
    baseline_ms: dict[str, float] = Field(default_factory=dict, description="Baselines on the primary workload, in ms")
    plan_summary: str = Field(default="", description="The plan in one line")
    strategies: tuple[str, ...] = Field(default=(), description="Names of the plan's strategies")
    quotas: dict[str, int] = Field(default_factory=dict, description="Evaluations for each phase, in order of phases")

    phase: Phase = Field(default="explore", description="What the loop is doing")
    round: int = Field(default=0, description="Rounds opened so far")
    rounds_without_gain: int = Field(default=0, description="Rounds since the best last improved, in this phase")
    requests: tuple[WriterRequest, ...] = Field(default=(), description="What this round asks of the writers")
    proposed: Annotated[list[str], operator.add] = Field(default_factory=list, description="Ids proposed this round")
    queue: tuple[str, ...] = Field(default=(), description="New ids to evaluate this round")
    results: Annotated[list[Row], operator.add] = Field(default_factory=list, description="Evaluated this round")
    profiled: tuple[str, ...] = Field(default=(), description="Ids that were profiled")
    diagnoses: tuple[Diagnosis, ...] = Field(default=(), description="Suspected bottlenecks, this round")
    feedback: tuple[Feedback, ...] = Field(default=(), description="What writers hear of the last round")

    tried: tuple[str, ...] = Field(default=(), description="Ids of every evaluated candidate, in order")
    pool: tuple[Row, ...] = Field(default=(), description="The best kept candidates of each language, best first")
    seeds: tuple[str, ...] = Field(default=(), description="Ids that this phase starts from")
    best: str = Field(default="", description="Id of the best candidate so far")
    best_rank: float = Field(default=0.0, description="Its speedup, an estimate in a dry run")
    evaluations: int = Field(default=0, description="Candidates evaluated")
    evaluations_at_gain: int = Field(default=0, description="Candidates evaluated when the best last improved")
    tokens_used: int = Field(default=0, description="Tokens spent on models")
    money_used: float = Field(default=0.0, description="Money spent on models, in the price table's currency")
    seconds_used: float = Field(default=0.0, description="Wall time spent")
    phase_over: bool = Field(default=False, description="This phase has nothing more to do")
    stop_reason: StopReason = Field(default="", description="Why the search ended")

    finalists: tuple[str, ...] = Field(default=(), description="Cross-validated ids, best first")
    rejected: tuple[str, ...] = Field(default=(), description="Ids that failed cross-validation or the final check")
    winner: str = Field(default="", description="Id that passed the final check")
    outcome: Outcome = Field(default="nothing", description="verified, estimated or nothing")
    speedup: float | None = Field(default=None, description="Of the winner, over the best baseline")


class RunOutput(BaseModel):
    """What a run hands back. The rest is in `report.json` in the run directory."""

    run_dir: str
    outcome: Outcome
    winner: str
    speedup: float | None
    stop_reason: StopReason


class Update(TypedDict, total=False):
    """A partial state, as nodes return it. LangGraph drops unknown keys silently; the type checker does not.

    `Any` stands where a channel has a reducer, since a node may also overwrite it.
    """

    problem: str
    run_dir: str
    problem_name: str
    problem_id: str
    dry_run: bool
    notes: tuple[str, ...]
    baseline_ms: dict[str, float]
    plan_summary: str
    strategies: tuple[str, ...]
    quotas: dict[str, int]
    phase: Phase
    round: int
    rounds_without_gain: int
    requests: tuple[WriterRequest, ...]
    proposed: Any
    queue: tuple[str, ...]
    results: Any
    profiled: tuple[str, ...]
    diagnoses: tuple[Diagnosis, ...]
    feedback: tuple[Feedback, ...]
    tried: tuple[str, ...]
    pool: tuple[Row, ...]
    seeds: tuple[str, ...]
    best: str
    best_rank: float
    evaluations: int
    evaluations_at_gain: int
    tokens_used: int
    money_used: float
    seconds_used: float
    phase_over: bool
    stop_reason: StopReason
    finalists: tuple[str, ...]
    rejected: tuple[str, ...]
    winner: str
    outcome: Outcome
    speedup: float | None
