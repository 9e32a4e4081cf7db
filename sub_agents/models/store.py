"""What was asked and answered in a run, as JSON lines: a resumed run never asks again what was answered.

Each line has `kind` (`asked`, `answered`, `failed`, `abandoned`), the ask's key and its ordinal among equal asks of one
session. A request is written before it is sent, so that one without an answer is known to have been in flight.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...state.base import Record
from ...state.errors import InvalidInput
from ...tools.line_file import append_line
from .budget import Ledger
from .protocol import Answer, Ask, ChatModel, ModelError, Usage

Place = tuple[str, int]
FINAL = ("answered", "failed", "abandoned")


class Entry(Record):
    """One request that was sent: who asked, and what came of it."""

    key: str
    ordinal: int
    role: str
    phase: str
    tag: str = ""
    model: str = ""
    outcome: str = "in_flight"
    """`answered`, `failed`, `in_flight` (sent in this session), or `abandoned` (in flight when a session ended)."""
    usage: Usage = Usage()
    """Of an abandoned one what it may have cost at most."""
    error: str = ""


class AnswerStore:
    """The file of one run. Reads it at once; every line is on the disk before the call returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._latest: dict[Place, int] = {}
        """Where in `_entries` the last request of a place is: a failed or abandoned one may be sent again."""
        self._answers: dict[Place, Answer] = {}
        for number, line in enumerate(self._lines(), 1):
            self._take(line, number)

    def answer(self, place: Place) -> Answer | None:
        """A recorded answer; None where there is none."""
        return self._answers.get(place)

    def entries(self) -> tuple[Entry, ...]:
        """Every request in the order in which it was sent."""
        with self._lock:
            return tuple(self._entries)

    def asked(self, place: Place, ask: Ask, most: Usage, model: str) -> None:
        """Notes a request that is about to be sent, with what it may cost at most."""
        fields = {"role": ask.role, "phase": ask.phase, "tag": ask.tag, "model": model}
        messages = [message.model_dump(mode="json", exclude_defaults=True) for message in ask.messages]
        self._write("asked", place, **fields, usage=most.model_dump(mode="json"), messages=messages)

    def answered(self, place: Place, answer: Answer) -> None:
        self._write("answered", place, answer=answer.model_dump(mode="json"))

    def failed(self, place: Place, error: ModelError) -> None:
        usage = (error.usage or Usage()).model_dump(mode="json")
        self._write("failed", place, error=f"{type(error).__name__}: {error}", usage=usage)

    def abandon(self) -> None:
        """Ends what an earlier session left in flight: it may be asked again."""
        for entry in self.entries():
            if entry.outcome == "in_flight":
                self._write("abandoned", (entry.key, entry.ordinal))

    def _write(self, kind: str, place: Place, **fields: Any) -> None:
        entry = {"kind": kind, "key": place[0], "ordinal": place[1], **fields}
        line = json.dumps(entry, ensure_ascii=True)
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            append_line(self.path, line)
            self._apply(entry)

    def _lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []

    def _take(self, line: str, number: int) -> None:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            return  # A killed process left half a line; what it was about to note is asked again.
        try:
            self._apply(entry)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{self.path}: line {number} is no part of a record of answers; move it away") from error

    def _apply(self, entry: dict[str, Any]) -> None:
        place, kind = (entry["key"], entry["ordinal"]), entry["kind"]
        if kind == "asked":
            names = ("key", "ordinal", "role", "phase", "tag", "model", "usage")
            self._latest[place] = len(self._entries)
            self._entries.append(Entry.model_validate({name: entry[name] for name in names}))
            return
        if kind not in FINAL:
            raise ValueError(kind)
        number = self._latest[place]
        update: dict[str, Any] = {"outcome": kind}
        if kind == "answered":
            answer = Answer.model_validate(entry["answer"])
            self._answers[place] = answer
            update["usage"] = answer.usage
        elif kind == "failed":
            update |= {"usage": Usage.model_validate(entry["usage"]), "error": entry["error"]}
        self._entries[number] = self._entries[number].model_copy(update=update)


class RecordedModel:
    """Answers from the record where it can, asks the model behind it where it cannot, and records that.

    Equal asks are told apart by their order within a session, so that asks of different rounds or writers need
    different tags. What earlier sessions spent is booked in the ledger.
    """

    def __init__(
        self, store: AnswerStore, model: ChatModel | None, ledger: Ledger, bound: Callable[[Ask], tuple[Usage, str]]
    ) -> None:
        self.store = store
        self.ledger = ledger
        self._model = model
        self._bound = bound
        self._ordinals: Counter[str] = Counter()
        self._lock = threading.Lock()
        if model is not None:  # A mere replay leaves the record as it is.
            store.abandon()
        for entry in store.entries():
            ledger.book(entry.usage.tokens, entry.usage.cost or 0.0)

    def ask(self, ask: Ask) -> Answer:
        """As `ChatModel.ask`. Raises ModelError where nothing is recorded and no model is behind it."""
        place = self._next_place(ask)
        known = self.store.answer(place)
        if known is not None:
            return known
        if self._model is None:
            raise ModelError(f"{self.store.path}: holds no answer to this {ask.role} request, and no model is set")
        self.store.asked(place, ask, *self._bound(ask))
        try:
            answer = self._model.ask(ask)
        except ModelError as error:
            self.store.failed(place, error)
            raise
        self.store.answered(place, answer)
        return answer

    def _next_place(self, ask: Ask) -> Place:
        with self._lock:
            ordinal = self._ordinals[ask.key]
            self._ordinals[ask.key] += 1
            return ask.key, ordinal
