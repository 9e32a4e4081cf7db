"""A candidate: one kernel source with where it came from."""

import ast
from typing import Literal

from pydantic import Field

from .base import Record, digest
from .syntax import parse

Language = Literal["triton", "cuda", "torch"]
Origin = Literal["template", "llm", "compiler", "human"]
SlotValue = int | str | bool


class Candidate(Record):
    """One self-contained Python file that defines `ModelNew`."""

    id: str
    """Hash of the normalised source: two files that differ in comments or spacing are one candidate."""
    language: Language
    source: str
    origin: Origin = "human"
    parent: str | None = None
    template: str | None = None
    """Name of the template that wrote it, so that failures can be counted by template."""
    slots: dict[str, SlotValue] = Field(default_factory=dict)
    note: str = ""
    """One line on the idea, for reports."""
    asked: str = ""
    """What the controller had asked the writer for: directive and tag."""
    prompt: str = ""
    """Hash of the prompts that asked for it; empty where no model was asked."""


def normalised_hash(source: str) -> str:
    """16 hex digits that ignore comments and spacing; a file that does not parse is hashed as text."""
    try:
        text = ast.unparse(parse(source))
    except (SyntaxError, ValueError, RecursionError):
        text = source
    return digest(text)[:16]


def language_of(source: str) -> Language:
    """Guesses the language of a candidate handed in without one: it decides nothing but labels."""
    if "RawModule" in source or "RawKernel" in source or "load_inline" in source:
        return "cuda"
    return "triton" if "triton.jit" in source else "torch"


def make_candidate(source: str, language: Language | None = None, **fields: object) -> Candidate:
    """A candidate with its content id; other fields as in `Candidate`."""
    return Candidate.model_validate(
        {"id": normalised_hash(source), "language": language or language_of(source), "source": source, **fields}
    )


def reference_as_candidate(problem_source: str) -> Candidate:
    """The reference under a candidate's name: what the harness measures itself with."""
    source = f"{problem_source}\n\nModelNew = Model\n"
    return make_candidate(source, "torch", origin="human", note="the reference itself")
