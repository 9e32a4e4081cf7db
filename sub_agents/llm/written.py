"""Answers written down beforehand, played back in order: a model for tests and for recorded runs."""

import json
import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from ...state.base import Record
from ...state.errors import InvalidInput
from ..models.protocol import Answer, Ask, EndpointFault, Finish, Role, ToolCall, Usage
from .sections import tokens_of


class WrittenAnswer(Record):
    """One answer of a role."""

    role: Role
    text: str = ""
    parsed: dict[str, Any] | None = None
    """For asks with a schema; the answer's text as JSON where it is left out."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish | None = None
    note: str = ""
    """For readers of the file: what is meant to come of it."""

    @property
    def finished(self) -> Finish:
        return self.finish or ("tool_calls" if self.tool_calls else "stop")


class WrittenAnswers(Record):
    """The answers of one run, with who wrote them."""

    problem: str
    written_by: str
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the run that they were written for."""
    answers: tuple[WrittenAnswer, ...] = Field(min_length=1)


class WrittenModel:
    """A `ChatModel` that gives each role its next answer, whatever it is asked.

    `asked` keeps every ask, `given` every answer with what it was made from, in order.
    """

    def __init__(self, answers: Iterable[WrittenAnswer], name: str = "written") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._left: defaultdict[Role, deque[WrittenAnswer]] = defaultdict(deque)
        self.asked: list[Ask] = []
        self.given: list[tuple[Answer, WrittenAnswer]] = []
        for answer in answers:
            self._left[answer.role].append(answer)

    def ask(self, ask: Ask) -> Answer:
        """The role's next answer. Raises EndpointFault where none is left."""
        with self._lock:
            self.asked.append(ask)
            if not self._left[ask.role]:
                raise EndpointFault(f"no written answer is left for the {ask.role}")
            written = self._left[ask.role].popleft()
            answer = self._answer(ask, written)
            self.given.append((answer, written))
            return answer

    @property
    def unasked(self) -> list[WrittenAnswer]:
        """Answers that nobody asked for yet."""
        return [written for queue in self._left.values() for written in queue]

    def left(self) -> int:
        """How many these are."""
        return len(self.unasked)

    def _answer(self, ask: Ask, written: WrittenAnswer) -> Answer:
        parsed = written.parsed
        if ask.answer_schema is not None and parsed is None and written.finished == "stop":
            try:
                parsed = json.loads(written.text)
            except ValueError:
                parsed = None
        usage = Usage(
            prompt_tokens=sum(tokens_of(message.text) for message in ask.messages),
            completion_tokens=tokens_of(written.text) + sum(tokens_of(str(c.arguments)) for c in written.tool_calls),
            requests=1,
            estimated=True,
        )
        return Answer(
            text=written.text,
            parsed=parsed,
            tool_calls=written.tool_calls,
            finish=written.finished,
            usage=usage,
            model=self._name,
        )


def read_written(path: Path) -> WrittenAnswers:
    """A file of JSON lines: first `{"problem": ..., "written_by": ...}`, then one answer a line.

    Raises InvalidInput that names the file and the line.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror}); give a file of written answers") from error
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(json.loads(line))
        except ValueError as error:
            raise InvalidInput(f"{path}: line {number} is not JSON ({error}); write one answer a line") from error
    try:
        return WrittenAnswers.model_validate({**(entries[0] if entries else {}), "answers": entries[1:]})
    except (ValidationError, TypeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"{path}: {place}: {first['msg']}; see the module written for the format") from error
