"""Planner and writers with a model behind them, or a person, by the run's settings; and what they cost."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from ..state.brief import Brief
from ..state.candidate import Language
from ..state.channels import Context
from ..state.errors import InvalidInput
from ..state.timing import Baselines
from ..state.trajectory import StopReason
from ..sub_agents.hybrid import HybridWriter
from ..sub_agents.llm.desk import Desk, Journal, Similar
from ..sub_agents.llm.planner import LlmPlanner
from ..sub_agents.llm.writer import LlmWriter
from ..sub_agents.models.budget import Ledger
from ..sub_agents.models.endpoint import Surroundings
from ..sub_agents.models.protocol import Answer, Ask, BudgetSpent, ChatModel, ModelError, QuotaExhausted, Usage
from ..sub_agents.models.settings import ModelSettings, need_client
from ..sub_agents.models.store import AnswerStore, RecordedModel
from ..sub_agents.models.team import ANSWERS_FILE, open_models
from ..sub_agents.models.usage import money_spent, total_tokens
from ..sub_agents.planning import Planner
from ..sub_agents.writer import Writer
from ..tools.harness import Harness
from .library import OFFERED, Library, structure_key
from .run_directory import RunDirectory
from .settings import setting_fault

TOOLS_FILE = "tool_results.jsonl"


class WatchedModel:
    """Passes asks on and keeps why no further one can succeed: then none is passed on any more."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._lock = threading.Lock()
        self.stopped: ModelError | None = None

    def ask(self, ask: Ask) -> Answer:
        """As `ChatModel.ask`."""
        if self.stopped is not None:
            raise self.stopped
        try:
            return self._model.ask(ask)
        except (QuotaExhausted, BudgetSpent) as error:
            with self._lock:
                self.stopped = self.stopped or error
            raise


class Meter:
    """What planner and writers have spent together in this session, and why they can spend no more."""

    def __init__(self, recorded: RecordedModel, watched: WatchedModel) -> None:
        self.recorded = recorded
        self._watched = watched
        entries = recorded.store.entries()
        self._tokens_before = total_tokens(entries)
        self._money_before = money_spent(entries)

    @property
    def tokens_used(self) -> int:
        return total_tokens(self.recorded.store.entries()) - self._tokens_before

    @property
    def money_used(self) -> float:
        return money_spent(self.recorded.store.entries()) - self._money_before

    @property
    def stopped(self) -> str:
        return str(self._watched.stopped or "")

    @property
    def stop_reason(self) -> StopReason:
        """The stop rule that the models' end fires, empty while they can be asked."""
        if isinstance(self._watched.stopped, BudgetSpent):
            return "budget_money" if self._watched.stopped.budget == "money" else "budget_tokens"
        return "quota_exhausted" if self._watched.stopped is not None else ""


@dataclass(frozen=True, kw_only=True)
class Staff:
    """Who plans and who writes."""

    planner: Planner
    writers: Mapping[Language, Writer]
    meter: Meter | None = None


def writer_kind(context: Context, model: ChatModel | None) -> str:
    """`offline`, `hybrid`, `llm` or `human`. Raises InvalidInput where a model is needed and none is set."""
    has_model = context.model is not None or model is not None
    if context.writer == "auto":
        return "hybrid" if has_model else "offline"
    if context.writer in ("llm", "hybrid") and not has_model:
        raise InvalidInput(f"--writer {context.writer} needs a model: name one with --model")
    return context.writer


def check_models(context: Context, model: ChatModel | None) -> None:
    """Raises InvalidInput where the settings' writer or model cannot work: before anything is started for them."""
    if writer_kind(context, model) in ("hybrid", "llm") and model is None:
        model_settings(context).key()
        need_client()


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """What a run offers to whoever plans and writes."""

    run: RunDirectory
    harness: Harness
    context: Context
    model: ChatModel | None = None
    """Brought by the caller; None: by the settings."""
    tell: Callable[..., None] = lambda event, **fields: None
    """Takes an event's name and fields."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set once a person has asked the run to stop."""


def staff(offline: Staff, place: Workplace) -> Staff:
    """Planner and writers by the run's settings, on top of the offline ones."""
    kind = writer_kind(place.context, place.model)
    if kind == "offline":
        return offline
    if kind == "human":
        from ..sub_agents.human import HumanWriter

        people: dict[Language, Writer] = {name: HumanWriter(name, place.run.path) for name in ("triton", "cuda")}
        return Staff(planner=offline.planner, writers=people)
    recorded = _recorded(place)
    watched = WatchedModel(recorded)
    planner = LlmPlanner(watched, offline.planner, lambda _: place.run.read_record("baselines", Baselines))
    meter = Meter(recorded, watched)
    return Staff(planner=planner, writers=_writers(kind, offline, place, watched), meter=meter)


def _writers(kind: str, offline: Staff, place: Workplace, model: ChatModel) -> dict[Language, Writer]:
    journal = Journal(place.run.path / TOOLS_FILE)

    def open_desk(brief: Brief, language: Language) -> Desk:
        return Desk(
            model=model,
            harness=place.harness,
            brief=brief,
            language=language,
            journal=journal,
            similar=_similar(place.context),
            compiler_output=getattr(place.harness, "compiler_output", None),
        )

    languages: tuple[Language, ...] = ("triton", "cuda")
    asked: dict[Language, Writer] = {
        language: LlmWriter(language, open_desk, place.context.conversations) for language in languages
    }
    if kind == "llm":
        return asked
    return {
        language: HybridWriter(offline.writers[language], writer) if language in offline.writers else writer
        for language, writer in asked.items()
    }


def _similar(context: Context) -> Similar | None:
    """Looks kernels up in the run's library; None where it has none."""
    if not context.library:
        return None
    library = Library(Path(context.library))

    def found(brief: Brief) -> str:
        structure = structure_key(brief.plan)
        entries = library.find(structure, brief.device.name, brief.language) if structure else []
        shown = [f"{e.problem}, {e.speedup:.3g}x over its baseline:\n{e.candidate.source}" for e in entries[:OFFERED]]
        return "\n\n".join(shown)

    return found


def _recorded(place: Workplace) -> RecordedModel:
    """The model with its record in the run directory: what was answered once is not asked again."""
    if place.model is not None:
        ledger = Ledger(place.context.tokens, place.context.money)
        return RecordedModel(AnswerStore(place.run.path / ANSWERS_FILE), place.model, ledger, _unbounded)
    around = Surroundings(tell=place.tell, stopping=place.stopping)
    return open_models(model_settings(place.context), place.run.path, around)


def _unbounded(ask: Ask) -> tuple[Usage, str]:
    """A model that the caller brings keeps its own books."""
    return Usage(completion_tokens=ask.max_output_tokens, estimated=True), "given"


def model_settings(context: Context) -> ModelSettings:
    """The endpoint's settings. Raises InvalidInput that names the first one that is wrong."""
    try:
        return ModelSettings.model_validate(
            {
                "model": context.model,
                "models": context.models,
                "base_url": context.base_url,
                "answer_seconds": context.answer_seconds,
                "token_budget": context.tokens,
                "money_budget": context.money,
                "prices": context.prices,
            }
        )
    except ValidationError as error:
        raise InvalidInput(setting_fault(error)) from error
