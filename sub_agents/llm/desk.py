"""What a sub-agent works with: a model, the harness, limits, and a journal of what it was told.

It is handed to a subgraph as its run context; nothing of it enters the subgraph's state.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from ...state.base import Record, digest
from ...state.brief import Brief
from ...state.candidate import Language
from ...state.problem import Problem
from ...tools.harness import Harness
from ...tools.line_file import append_line
from ...tools.toolbox import Toolbox
from ..answers.reading import Reading, Wanted, read_kernel
from ..models.protocol import Answer, Ask, ChatModel, ModelError

Similar = Callable[[Brief], str]
"""Kernels found before for the same structure, as text; empty where there are none."""
CompilerOutput = Callable[[Problem], str]
"""What torch.compile generates for a problem, or why that is not known."""


class Limits(Record):
    """How far one sub-agent may go for one kernel."""

    answers: int = Field(default=3, ge=1)
    """Answers that may be read, tool calls not counted."""
    tool_calls: int = Field(default=8, ge=0)
    repairs: int = Field(default=2, ge=0)
    """Times that a failed kernel is given to the repairer."""
    output_tokens: int = Field(default=8192, ge=256)
    """Asked for at first; doubled once after an answer that was cut."""


class Journal:
    """What tools told a model, by conversation and call, so that a resumed run repeats no words differently.

    With a path it is kept there as JSON lines; a half line that a killed process left is skipped.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        for line in lines:
            try:
                entry = json.loads(line)
                self._known[entry["key"]] = entry["text"]
            except (ValueError, KeyError, TypeError):
                continue

    def tell(self, key: tuple[object, ...], make: Callable[[], str]) -> str:
        """The text told before under this key, else a new one."""
        name = digest(key)
        with self._lock:
            known = self._known.get(name)
        if known is not None:
            return known
        text = make()
        with self._lock:
            self._known[name] = text
            if self._path is not None:
                append_line(self._path, json.dumps({"key": name, "text": text}))
        return text


@dataclass(kw_only=True)
class Desk:
    """One sub-agent's collaborators for one brief."""

    model: ChatModel
    harness: Harness
    brief: Brief
    language: Language
    limits: Limits = field(default_factory=Limits)
    journal: Journal = field(default_factory=Journal)
    similar: Similar | None = None
    compiler_output: CompilerOutput | None = None
    stopped: ModelError | None = None
    """Why no model can be asked any more."""

    def __post_init__(self) -> None:
        self.toolbox = Toolbox(self.harness, self.brief.problem)

    def read(self, answer: Answer) -> Reading:
        """The kernel file in an answer, or what to tell the model about it."""
        return read_kernel(answer, Wanted(reference=self.brief.problem.source, known=self.brief.tried))

    def ask(self, ask: Ask) -> Answer | None:
        """The model's answer; None once it cannot be asked, with the reason in `stopped`."""
        if self.stopped is not None:
            return None
        try:
            return self.model.ask(ask)
        except ModelError as error:
            self.stopped = error
            return None
