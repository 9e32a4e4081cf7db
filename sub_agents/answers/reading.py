"""The kernel file in an answer, found by what it defines; or one line that says what is wrong with the answer."""

import ast
import re
from typing import NamedTuple

from ...state.base import Record
from ...state.candidate import normalised_hash
from ...state.syntax import parse
from ...state.wording import counted
from ..models.protocol import Answer
from .characters import cleaned
from .definitions import Model, model_in, top_level_names, undefined_names
from .pieces import Piece, pieces_of
from .thinking import without_thinking

NEWER = re.compile(
    r"\b(final|corrected|fixed|improved|updated|complete|full|new|revised|optimi[sz]ed|submit|hand(?:ed|ing)? in)\b",
    re.I,
)
OLDER = re.compile(
    r"\b(old|older|previous|earlier|original|draft|initial|naive|wrong|incorrect|broken|buggy|slower|superseded|outdated"
    r"|deprecated|first (?:attempt|version|try|idea)|for comparison|instead of|do not use|don't use|not this)\b",
    re.I,
)
ELIDED = re.compile(r"^\s*#.*(?:\.\.\.|…|\bunchanged\b|\bsame as\b|\brest of\b|\bas before\b)", re.M | re.I)
MOST_NAMES = 6


class Wanted(Record):
    """What the file has to fit."""

    reference: str
    """Source of the problem, with `Model`."""
    known: frozenset[str] = frozenset()
    """Ids of candidates that exist already: a repetition of one is not what was asked for."""


class Reading(Record):
    """Either `source` or `fault`."""

    source: str | None = None
    fault: str = ""
    """What to tell the model, as one line."""


class _Found(NamedTuple):
    source: str
    fault: str
    fresh: bool
    label: int
    whole: bool


def read_kernel(answer: Answer, wanted: Wanted) -> Reading:
    """The kernel file in an answer. What was cut or refused is never read."""
    if answer.finish == "truncated":
        cut = f"after {answer.usage.completion_tokens} tokens" if answer.usage.completion_tokens else "by the limit"
        return Reading(fault=f"the answer was cut {cut}: hand in a shorter file, without explanations")
    if answer.finish == "refused":
        return Reading(fault=answer.fault or "the answer was a refusal")
    return read_code(answer.text, wanted)


def read_code(text: str, wanted: Wanted) -> Reading:
    """The kernel file in a text."""
    text = without_thinking(cleaned(text))
    if not text.strip():
        return Reading(fault="the answer is empty: hand in one Python file that defines ModelNew")
    pieces = pieces_of(text)
    found = [one for piece in pieces if (one := _judge(piece, pieces, wanted)) is not None]
    right = [one for one in found if not one.fault]
    if right:
        # Of several that fit: nothing old, the one called final, one without gaps, and then the last.
        best = max(enumerate(right), key=lambda item: (item[1].fresh, item[1].label, item[1].whole, item[0]))[1]
        if best.fresh:
            return Reading(source=best.source)
        return Reading(fault="this kernel was tried before: hand in a different one")
    if found:
        return Reading(fault=max(enumerate(found), key=lambda item: (item[1].label, item[0]))[1].fault)
    return Reading(fault=_why_nothing(text, pieces))


def _judge(piece: Piece, pieces: list[Piece], wanted: Wanted) -> _Found | None:
    """A piece that defines ModelNew, with its fault if it has one; None for any other piece."""
    if "ModelNew" not in piece.text:
        return None
    source = piece.text.strip("\n") + "\n"
    label = _label(piece)
    try:
        tree = parse(source)
    except (SyntaxError, ValueError) as error:
        if not re.search(r"^[ \t]*class ModelNew\b|^ModelNew\s*=", source, re.M):
            return None
        return _Found(source, _syntax_fault(error, piece), True, label, True)
    model = model_in(tree, "ModelNew")
    if model is None:
        return None
    fault = _contract_fault(model, wanted.reference)
    if not fault:
        try:
            source, fault = _completed(source, pieces, piece)
        except (SyntaxError, RecursionError) as error:  # Of the kind that only shows when names are resolved.
            fault = _syntax_fault(error, piece)
    fresh = normalised_hash(source) not in wanted.known
    return _Found(source, fault, fresh, label, ELIDED.search(source) is None)


def _contract_fault(model: Model, reference: str) -> str:
    """How ModelNew cannot stand in for the reference's Model; empty if it can, as far as the files tell."""
    if model.lacks_forward:
        return "ModelNew has no forward"
    if model.empty_forward:
        return "ModelNew.forward is a placeholder: hand in the whole file"
    try:
        truth = model_in(parse(reference), "Model")
    except (SyntaxError, ValueError):
        truth = None
    if truth is None:
        return ""
    pairs = (("__init__", model.constructor, truth.constructor), ("forward", model.forward, truth.forward))
    for method, own, needed in pairs:
        if own is not None and needed is not None and not own.takes(needed):
            least = needed.required
            count = counted(least, "positional one") if needed.most == least else f"{least} or more positional ones"
            return f"ModelNew.{method} does not take the arguments of Model.{method}: {count}"
    return ""


def _completed(source: str, pieces: list[Piece], own: Piece) -> tuple[str, str]:
    """The source with pieces put before it that define what it lacks; and what it lacks even so, as a fault.

    Raises SyntaxError and RecursionError.
    """
    missing = set(undefined_names(source))
    for piece in reversed(pieces):
        if not missing:
            break
        tree = None if piece is own else _tree(piece.text)
        if tree is not None and missing & top_level_names(tree) and model_in(tree, "ModelNew") is None:
            source = piece.text.strip("\n") + "\n\n\n" + source
            missing = set(undefined_names(source))
    local = sorted(_local_modules(source, pieces))
    if local:
        return source, f"the answer has several files ({', '.join(local)}): hand in one that holds everything"
    if missing:
        names = ", ".join(sorted(missing)[:MOST_NAMES])
        return source, f"the file uses names that nothing in it defines: {names}; hand in the whole file"
    return source, ""


def _local_modules(source: str, pieces: list[Piece]) -> set[str]:
    """Modules that the source imports and another piece of the answer is named after."""
    titles = " ".join(f"{piece.info} {piece.lead} {piece.text.partition(chr(10))[0]}" for piece in pieces)
    stems = set(re.findall(r"\b(\w+)\.(?:py|cu|cuh|cpp)\b", titles))
    imported = set()
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0] if not node.level else node.module or ".")
        elif isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
    return imported & stems


def _tree(text: str) -> ast.Module | None:
    try:
        return parse(text)
    except (SyntaxError, ValueError):
        return None


def _label(piece: Piece) -> int:
    """1 for a piece that the text calls final, -1 for one that it calls old, by the words right before it."""
    words = f"{piece.lead} {piece.info} {_first_comment(piece.text)}"
    return 1 if NEWER.search(words) and not OLDER.search(words) else -1 if OLDER.search(words) else 0


def _first_comment(text: str) -> str:
    first = text.lstrip().partition("\n")[0]
    return first if first.startswith("#") else ""


def _syntax_fault(error: SyntaxError | ValueError | RecursionError, piece: Piece) -> str:
    where = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
    what = error.msg if isinstance(error, SyntaxError) else str(error)
    ending = "" if piece.closed else " (its block is not closed: was the answer cut?)"
    return f"the file does not parse: {where}{what}{ending}"


def _why_nothing(text: str, pieces: list[Piece]) -> str:
    if any(piece.info.partition(" ")[0] in ("diff", "patch") for piece in pieces) or re.search(r"^@@ ", text, re.M):
        return "the answer is a patch: hand in the whole file"
    if any(re.search(r"\bclass Model\b", piece.text) for piece in pieces):
        return "the file defines Model, not ModelNew: name the class ModelNew"
    if pieces:
        return "no code in the answer defines ModelNew: hand in one Python file with class ModelNew"
    return "no code in the answer: hand in one Python file with class ModelNew in a fenced block"
