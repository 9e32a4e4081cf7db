"""A run that waits for a person: what it asks, and how answers reach it."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..state.candidate import language_of
from ..state.errors import InvalidInput, WarpsmithError

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

Question = Mapping[str, Any]
Person = Callable[[Question], object]
"""Answers a question with a path, a source, a list of these, or nothing to end; `LATER` leaves it open."""
LATER = object()
DONE = "done"


class Waiting(WarpsmithError):
    """The run has stopped with questions that nobody here answers; `resume(run_dir, kernels=[...])` goes on."""

    def __init__(self, run_dir: Path, questions: Mapping[str, Question]) -> None:
        wanted = "; ".join(f"{q.get('wanted', 'a kernel')} ({q.get('brief_file', '')})" for q in questions.values())
        faults = [str(q["fault"]) for q in questions.values() if q.get("fault")]
        told = f" [{'; '.join(faults)}]" if faults else ""
        super().__init__(f"waiting for {wanted}{told}; go on with: --resume {run_dir} --kernel FILE (or done)")
        self.run_dir = run_dir
        self.questions = dict(questions)


def open_questions(graph: Any, config: "RunnableConfig") -> dict[str, Question]:
    """What the graph waits for, by the id that an answer has to name."""
    return {each.id: dict(each.value) for each in graph.get_state(config).interrupts}


def answered(questions: Mapping[str, Question], person: Person) -> dict[str, object]:
    """The answers that a person gives now, by question."""
    found = {id: person(question) for id, question in questions.items()}
    return {id: answer for id, answer in found.items() if answer is not LATER}


def with_kernels(kernels: Sequence[str | Path]) -> Person:
    """Somebody who hands in these files, once, each where its language is wanted; `done` ends every question.

    Raises InvalidInput for a file that cannot be read.
    """
    if [str(kernel) for kernel in kernels] == [DONE]:
        return lambda question: None
    left: dict[str, list[str]] = {}
    for kernel in kernels:
        path = Path(kernel)
        try:
            language = language_of(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path}: cannot be read; give a Python file that defines ModelNew") from error
        left.setdefault(language, []).append(str(path.resolve()))

    def person(question: Question) -> object:
        own = left.pop(str(question.get("language", "")), None) or left.pop("torch", None)
        return own or LATER

    return person


def at_terminal(question: Question) -> object:
    """Asks on a terminal for the paths of kernels, one a line."""
    sys.stderr.write(f"\n{question['wanted']}\nthe brief: {question['brief_file']}\n")
    if question.get("fault"):
        sys.stderr.write(f"{question['fault']}\n")
    sys.stderr.write("kernel file (empty line: no more): ")
    sys.stderr.flush()
    line = sys.stdin.readline().strip()
    return line or None
