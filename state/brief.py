"""Everything a writer gets to see when it is asked for candidates."""

from typing import Literal

from pydantic import Field

from .base import Record
from .candidate import Candidate, Language
from .device import DeviceSheet
from .evaluation import Evaluation, Status
from .experience import Experience
from .feedback import Feedback
from .lowered import LoweredGraph
from .plan import Plan
from .problem import Problem
from .timing import Baselines

Directive = Literal["explore", "diversify", "rewrite", "tune", "fit"]
"""`fit` explores for the sizes that the plan has in this brief."""


class Scored(Record):
    """A candidate with its evaluation."""

    candidate: Candidate
    evaluation: Evaluation


class Brief(Record):
    """One request to a writer."""

    problem: Problem
    device: DeviceSheet
    plan: Plan
    language: Language
    directive: Directive
    pool: tuple[Scored, ...] = ()
    """The best verified candidates so far, best first."""
    seeds: tuple[Scored, ...] = ()
    """For `rewrite` and `tune`: the candidates to start from."""
    feedback: tuple[Feedback, ...] = ()
    tried: frozenset[str] = frozenset()
    """Ids of candidates already evaluated."""
    temperature: float = Field(default=1.0, ge=0)
    rng_seed: int = 0
    round: int = 0
    """Which round of the run asks."""
    spread: bool = False
    """For `explore`: every other kernel of another kind, not only the most promising ones."""
    vary: int | None = None
    """For `tune`: the ordinal of the one slot to move, far if need be, counted over the seed's slots; None: any."""
    graph: LoweredGraph | None = None
    """The reference as operators, for writers that put it into words."""
    baselines: Baselines | None = None
    """Times to beat; None or without times in a dry run."""
    experience: Experience = Field(default_factory=Experience)
    """What this run has learnt and measured twice."""
    failures: tuple[Scored, ...] = ()
    """Candidates of the last round that failed, with what the harness said."""
    history: tuple[Status, ...] = ()
    """Statuses of the models' candidates so far, in the order of evaluation."""
    compile_errors: tuple[str, ...] = ()
    """Distinct compile errors of this run, one line each, the newest last."""
