"""A person, or any coding agent that a person runs, as the writer: the graph stops with the brief and waits for files.

What resumes it may be a path, the source itself, a list of either, or nothing to say that there will be no more.
"""

from pathlib import Path
from typing import Any

from langgraph.types import interrupt

from ..state.brief import Brief
from ..state.candidate import Candidate, Language, make_candidate
from ..state.errors import InvalidInput
from ..state.wording import counted
from .llm.briefing import directive_text, writer_sections
from .llm.prompts import render

DONE_FILE = "no-more-kernels"
MOST_BYTES = 1_000_000


class HumanWriter:
    """A `Writer` that asks whoever resumes the graph. Must be called inside a node of a graph with a checkpointer."""

    def __init__(self, language: Language, folder: Path) -> None:
        self.name = f"human-{language}"
        self._language: Language = language
        self._folder = folder

    def propose(self, brief: Brief, n: int) -> list[Candidate]:
        """Up to n candidates from what resumed the graph; none once that said that there will be no more."""
        done = self._folder / DONE_FILE
        if done.exists():
            return []
        question = self._question(brief, n)
        while True:
            reply = interrupt(question)
            try:
                candidates = candidates_in(reply, self._language)
            except InvalidInput as error:
                question = {**question, "fault": str(error)}
                continue
            if not candidates:
                done.touch()
            return [candidate for candidate in candidates if candidate.id not in brief.tried][:n]

    def _question(self, brief: Brief, n: int) -> dict[str, Any]:
        text = brief_text(brief, self._language)
        file = self._folder / f"brief-{self._language}-{len(brief.tried)}.md"
        file.write_text(text, encoding="utf-8")
        return {
            "wanted": f"up to {counted(n, f'{self._language} kernel')}, each a Python file that defines ModelNew",
            "answer_with": "a path, the source, a list of these, or nothing to end",
            "language": self._language,
            "brief_file": str(file),
            "brief": text,
        }


def brief_text(brief: Brief, language: Language) -> str:
    """The brief as a page to read: contract, problem, hardware, time to beat, pool, failures."""
    return render(
        "human",
        problem=brief.problem.name,
        language=language,
        precision=brief.problem.precision,
        sections=writer_sections(brief, language),
        directive=directive_text(brief, len(brief.tried)),
    )


def candidates_in(reply: object, language: Language) -> list[Candidate]:
    """The kernels in a reply. Raises InvalidInput for a file that cannot be read or a reply of another kind."""
    if reply is None or reply in ("", "done", [], {}):
        return []
    if isinstance(reply, list):
        return [candidate for part in reply for candidate in candidates_in(part, language)]
    if isinstance(reply, dict):
        given = reply.get("source") or reply.get("file") or reply.get("files")
        return candidates_in(given, language)
    if not isinstance(reply, str | Path):
        raise InvalidInput(f"a reply of type {type(reply).__name__}: give a path or the source of a kernel")
    text = str(reply)
    if "\n" not in text:
        text = _read(Path(text).expanduser())
    return [make_candidate(text, language, origin="human")]


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InvalidInput(f"{path}: is larger than a megabyte; give a Python file that defines ModelNew")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: cannot be read; give a Python file that defines ModelNew") from error
