"""What nodes work with and a checkpoint cannot hold: harness, planner, writers, run directory, event log.

Nodes find them by run directory. Whoever starts a run may provide them (`provide`); else they are opened from the
run's settings on first use, also in a process that resumes a run or in the LangGraph server.
"""

import atexit
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from ..state.brief import Brief, Scored
from ..state.candidate import Language
from ..state.channels import Context, ProposeTask, State
from ..state.device import DeviceSheet
from ..state.errors import InfraError, InvalidInput
from ..state.evaluation import Status, Tier
from ..state.lowered import LoweredGraph
from ..state.plan import Plan
from ..state.problem import Problem
from ..state.timing import Baselines
from ..state.trajectory import Row
from ..sub_agents.models.protocol import ChatModel
from ..sub_agents.planning import Planner
from ..sub_agents.writer import Writer
from ..tools.harness import Harness
from ..tools.toolbox import Toolbox
from .events import EventLog, Listener
from .experience import experience
from .keeping import target_gap, wins_everywhere
from .run_directory import RunDirectory
from .search import PhasedSearch, SearchStrategy, Standing, next_phase, patience_of, strategy_named
from .stages import staged
from .stopping import Progress
from .waiting import Person

if TYPE_CHECKING:
    from .models import Meter

T = TypeVar("T")
COMPILE_ERRORS_SHOWN = 5


@runtime_checkable
class Metered(Protocol):
    """A planner or writer that spends on models: totals since it was made."""

    tokens_used: int
    money_used: float


class Stopped(Exception):
    """The person asked the run to stop: work that has not begun is left to a resumed run."""


@dataclass(kw_only=True)
class Services:
    """One run's collaborators. `harness` is closed with them only where they own it."""

    run: RunDirectory
    harness: Harness
    planner: Planner
    writers: Mapping[Language, Writer]
    strategy: SearchStrategy = field(default_factory=PhasedSearch)
    listeners: tuple[Listener, ...] = ()
    owns_harness: bool = True
    meter: "Meter | None" = None
    """Counts what models cost; None without one."""
    person: Person | None = None
    """Answers what a writer asks a person; None leaves the run waiting."""
    stopping: threading.Event = field(default_factory=threading.Event)
    _lap_start: float = field(default_factory=time.monotonic)
    _spent_before: tuple[int, float] = (0, 0.0)

    @cached_property
    def events(self) -> EventLog:
        return EventLog(self.run.path / "events.jsonl", self.listeners)

    @cached_property
    def problem(self) -> Problem:
        return _required(self.run.read_record("problem", Problem), "problem", self.run)

    @cached_property
    def device(self) -> DeviceSheet:
        return _required(self.run.read_record("device", DeviceSheet), "device", self.run)

    @cached_property
    def baselines(self) -> Baselines:
        return _required(self.run.read_record("baselines", Baselines), "baselines", self.run)

    @cached_property
    def plan(self) -> Plan:
        return _required(self.run.read_record("plan", Plan), "plan", self.run)

    @property
    def heeds_counters(self) -> bool:
        """Whether hardware counters change what is tried next."""
        heeded = any(getattr(writer, "heeds_counters", True) for writer in self.writers.values())
        return heeded or getattr(self.strategy, "heeds_counters", False)

    @cached_property
    def toolbox(self) -> Toolbox:
        return Toolbox(self.harness, self.problem)

    def lap(self) -> float:
        """Seconds since the last lap, or since these services were opened: time between sessions does not count."""
        now = time.monotonic()
        seconds, self._lap_start = now - self._lap_start, now
        return seconds

    def spent(self) -> tuple[int, float]:
        """Tokens and money that planner and writers have spent since this was last asked."""
        spenders: list[object] = [self.planner, *self.writers.values(), self.meter]
        metered = {id(each): each for each in spenders if isinstance(each, Metered)}
        tokens = sum(each.tokens_used for each in metered.values())
        money = sum(each.money_used for each in metered.values())
        before, self._spent_before = self._spent_before, (tokens, money)
        return tokens - before[0], money - before[1]

    def standing(self, state: State, context: Context) -> Standing:
        """What the strategy sees: rows of a round whose node was cut short are not there yet."""
        tried = set(state.tried)
        return Standing(state, context, tuple(row for row in self.run.rows() if row.id in tried))

    def progress(self, state: State, context: Context, best: Row | None) -> Progress:
        """Where the run stands, as the stop rules look at it."""
        evaluation = self.run.evaluation(best.id) if best else None
        return Progress(
            state=state,
            context=context,
            best=best,
            wins=evaluation is not None and wins_everywhere(evaluation),
            target=target_gap(self.problem.target, evaluation, self.device) if evaluation else None,
            patience=patience_of(context, self.strategy.round_size(context)),
            last_phase=next_phase(state) is None,
            models_stop=self.meter.stop_reason if self.meter else "",
        )

    def check_stopping(self) -> None:
        """Raises Stopped once the person has asked to stop."""
        if self.stopping.is_set():
            raise Stopped

    def brief(self, task: ProposeTask) -> Brief:
        """The brief that a request's ids stand for."""
        request, rows = task.request, self.run.rows()[: task.known]
        return Brief(
            problem=self.problem,
            device=self.device,
            plan=self.plan,
            language=request.language,
            directive=request.directive,
            pool=tuple(self.run.scored(id) for id in task.pool),
            seeds=tuple(self.run.scored(id) for id in task.seeds),
            feedback=task.feedback,
            tried=frozenset(row.id for row in rows),
            temperature=request.temperature,
            rng_seed=request.rng_seed,
            round=task.round,
            vary=request.vary,
            spread=request.spread,
            graph=self.run.read_record("lowered", LoweredGraph),
            baselines=self.run.read_record("baselines", Baselines),
            failures=self._failures(task) if task.repairs else (),
            experience=experience(rows, self._source_of, self._message_of),
            **self._models_past(rows),
        )

    def _source_of(self, id: str) -> str:
        return self.run.candidate(id).source

    def _message_of(self, id: str) -> str:
        evaluation = self.run.evaluation(id)
        return evaluation.message if evaluation else ""

    def _failures(self, task: ProposeTask) -> tuple[Scored, ...]:
        """What failed in the last round, with sources: a repairer starts from these."""
        last = {row.id for row in self.run.rows() if row.round == task.round - 1}
        failed = [each.candidate for each in task.feedback if each.trend == "failed" and each.candidate in last]
        return tuple(self.run.scored(id) for id in failed if self.run.evaluation(id) is not None)

    def _models_past(self, rows: Sequence[Row]) -> dict[str, Any]:
        """How the models' candidates fared, and which compile errors the run has seen."""
        errors = [self._message_of(row.id) for row in rows if row.status is Status.COMPILE_ERROR]
        return {
            "history": tuple(row.status for row in rows if row.origin == "llm"),
            "compile_errors": tuple(dict.fromkeys(errors))[-COMPILE_ERRORS_SHOWN:],
        }

    def close(self) -> None:
        try:
            if self.owns_harness:
                self.harness.close()
        finally:
            self.events.close()


_open: dict[str, Services] = {}
_lock = threading.Lock()


def provide(services: Services, run_dir: str = "") -> None:
    """Makes nodes of that run directory use these services; `run_dir` is what its state calls it if that is another."""
    with _lock:
        _open[run_dir or str(services.run.path)] = services


def services_for(run_dir: str, context: Context) -> Services:
    """The services of a run, opened from its settings where nobody provided them."""
    with _lock:
        if run_dir not in _open:
            _open[run_dir] = open_services(Path(run_dir), context)
            # A graph that is driven by another program may end in an error before its last node closes them.
            atexit.register(close_services, run_dir)
        return _open[run_dir]


def close_services(run_dir: str) -> None:
    """Closes a run's services; nothing happens where they are closed already."""
    with _lock:
        services = _open.pop(run_dir, None)
    if services is not None:
        services.close()


@dataclass(frozen=True, kw_only=True)
class Collaborators:
    """What a caller brings along; None means: by the run's settings. A harness that is brought stays open."""

    harness: Harness | None = None
    planner: Planner | None = None
    writers: Mapping[Language, Writer] | None = None
    model: ChatModel | None = None
    """Asked in place of an endpoint; planner and writers that are brought are then what it builds upon."""
    person: Person | None = None
    """Answers what a writer asks a person."""
    strategy: SearchStrategy | None = None
    listeners: tuple[Listener, ...] = ()


def open_services(run_dir: Path, context: Context, given: Collaborators | None = None) -> Services:
    """Services by the run's settings and what the caller brings. Nothing stays open where a part of them fails."""
    given, context = given or Collaborators(), staged(context)
    with ExitStack() as undo:
        harness = given.harness or open_harness_for(context)
        if given.harness is None:
            undo.callback(harness.close)
        services = _services_around(harness, run_dir, context, given)
        undo.pop_all()
    return services


def _services_around(harness: Harness, run_dir: Path, context: Context, given: Collaborators) -> Services:
    if given.harness is None and context.replay is None:
        _need_toolchain(harness, context)
    planner = given.planner or _planner(context)
    writers = given.writers if given.writers is not None else _writers(context)
    run, meter, stopping = RunDirectory(run_dir), None, threading.Event()
    if _staffed(context, given):
        from .models import Staff, Workplace, staff

        def tell(event: str, **fields: Any) -> None:
            services.events.emit(event, **fields)

        place = Workplace(run=run, harness=harness, context=context, model=given.model, tell=tell, stopping=stopping)
        chosen = staff(Staff(planner=planner, writers=writers), place)
        planner, writers, meter = chosen.planner, chosen.writers, chosen.meter
    if context.record is not None:
        from ..tools.replay import Recording, RecordingHarness, RecordingPlanner, RecordingWriter

        recording = Recording(Path(context.record))
        harness, planner = RecordingHarness(harness, recording), RecordingPlanner(planner, recording)
        writers = {language: RecordingWriter(writer, recording) for language, writer in writers.items()}
    services = Services(
        run=run,
        harness=harness,
        planner=planner,
        writers=writers,
        strategy=given.strategy or strategy_named(context.strategy),
        listeners=given.listeners,
        meter=meter,
        person=given.person,
        owns_harness=given.harness is None,
        stopping=stopping,
    )
    return services


def _staffed(context: Context, given: Collaborators) -> bool:
    """Whether settings or caller ask for a model or a person; a replay answers for models, not for a person."""
    if context.replay is not None:
        return context.writer == "human"
    return context.model is not None or given.model is not None or context.writer != "auto"


def _need_toolchain(harness: Harness, context: Context) -> None:
    """Raises InvalidInput where CUDA kernels are asked for and nothing can compile them."""
    versions = harness.device().versions
    if context.languages != "triton" and "torch" in versions and "cupy" not in versions:
        raise InvalidInput(
            "CuPy is not installed, so CUDA kernels cannot be compiled: "
            "install the extra cuda13 or cuda12, or use --languages triton"
        )


def open_harness_for(context: Context, evidence_tiers: tuple[Tier, ...] = ("record",)) -> Harness:
    """The harness that the settings ask for: recorded answers, a GPU, or a dry run.

    By default outside evidence is gathered with a run's last verdict: for every finalist it would cost as much as the
    search.
    """
    if context.replay is not None:
        from ..tools.replay import ReplayHarness

        return ReplayHarness(Path(context.replay), context.pace)
    from ..tools.local import HarnessSettings, open_harness

    return open_harness(
        HarnessSettings(
            work_dir=Path(context.out) / ".work",
            dry_run=context.dry_run,
            arch=context.arch,
            gpu=context.gpu,
            baseline_file=Path(context.baselines) if context.baselines else None,
            require_gpu=context.require_gpu,
            evidence_tiers=evidence_tiers,
        )
    )


def _planner(context: Context) -> Planner:
    if context.replay is not None:
        from ..tools.replay import ReplayPlanner

        return ReplayPlanner(Path(context.replay))
    from ..sub_agents.planner import OfflinePlanner

    return OfflinePlanner()


def _writers(context: Context) -> dict[Language, Writer]:
    if context.replay is not None:
        from ..tools.replay import ReplayWriter

        writer = ReplayWriter(Path(context.replay))
        return {"triton": writer, "cuda": writer}
    from ..sub_agents.cuda_writer import CudaWriter
    from ..sub_agents.triton_writer import TritonWriter

    return {"triton": TritonWriter(), "cuda": CudaWriter()}


def _required(value: T | None, name: str, run: RunDirectory) -> T:
    if value is None:
        raise InfraError(f"{run.path}: {name}.json is missing; start the run again")
    return value
