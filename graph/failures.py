"""Reads run directories and counts what failed in them. Nothing is written, and no run has to be complete."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from ..state.candidate import Candidate
from ..state.errors import InvalidInput
from ..state.evaluation import Evaluation, Status
from ..state.failures import FailureGroup, Failures

EVALUATIONS = "evaluations.jsonl"
_FINE = (Status.PASSED, Status.UNVERIFIED)
_ERROR_LENGTH = 160


class Tried(NamedTuple):
    """One candidate of one run with its first failure, or none."""

    candidate: Candidate
    source: Path
    failure: Evaluation | None

    @property
    def template(self) -> str:
        return self.candidate.template or self.candidate.origin


def run_directories(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The run directories among the paths and in the folders among them, each once. Raises InvalidInput for others."""
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            raise InvalidInput(f"{path}: no such folder; give run directories or a folder that holds some")
        inside = sorted(file.parent for file in path.rglob(EVALUATIONS))
        if not inside:
            raise InvalidInput(
                f"{path}: no run directory with evaluations in it; give one, or a folder that holds some"
            )
        found |= dict.fromkeys(inside)
    return tuple(found)


def count_failures(runs: Sequence[Path], statuses: frozenset[Status] | None = None) -> Failures:
    """Failures of all runs; `statuses` keeps those that ended in one of them. Raises InvalidInput for a broken run."""
    tried = [each for run in runs for each in candidates_of(run)]
    by_template: dict[str, list[Tried]] = defaultdict(list)
    groups: dict[tuple[str, Status, str], list[Tried]] = defaultdict(list)
    for each in tried:
        by_template[each.template].append(each)
        if each.failure is not None and (statuses is None or each.failure.status in statuses):
            groups[each.template, each.failure.status, alike(each.failure.message)].append(each)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return Failures(
        runs=len(runs),
        tried=len(tried),
        failed=sum(len(members) for members in groups.values()),
        statuses=dict(Counter(status.value for (_, status, _), members in ordered for _ in members).most_common()),
        groups=tuple(_group(key, members, by_template[key[0]]) for key, members in ordered),
    )


def candidates_of(run: Path) -> Iterator[Tried]:
    """Every candidate that a run evaluated, in order. A failure at any tier counts, the first of them."""
    failures: dict[str, Evaluation | None] = {}
    for evaluation in _evaluations(run / EVALUATIONS):
        failed = evaluation if evaluation.status not in _FINE else None
        failures[evaluation.candidate] = failures.get(evaluation.candidate) or failed
    for id, failure in failures.items():
        source = run / "candidates" / f"{id}.py"
        yield Tried(_candidate(source.with_suffix(".json"), id), source, failure)


def alike(message: str) -> str:
    """A message without what differs from case to case: numbers and addresses."""
    return re.sub(r"0x[0-9a-fA-F]+|\d+", "#", " ".join(message.split()))[:_ERROR_LENGTH]


def _evaluations(file: Path) -> Iterator[Evaluation]:
    for number, line in enumerate(_read(file).splitlines(), 1):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # A run that was killed while writing leaves half a line.
        try:
            yield Evaluation.model_validate(entry["evaluation"])
        except (ValidationError, KeyError, TypeError) as error:
            raise InvalidInput(f"{file}:{number}: is no evaluation of this version; leave that run out") from error


def _candidate(file: Path, id: str) -> Candidate:
    """The candidate without its source. One whose file is gone still counts."""
    if not file.exists():
        return Candidate(id=id, language="torch", source="")
    try:
        return Candidate.model_validate({**json.loads(_read(file)), "source": ""})
    except (ValidationError, ValueError, TypeError) as error:
        raise InvalidInput(f"{file}: is no candidate of this version; leave that run out") from error


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file}: cannot be read; leave that run out") from error


def _group(key: tuple[str, Status, str], members: list[Tried], tried: list[Tried]) -> FailureGroup:
    template, status, error = key
    slots = [each.candidate.slots for each in members]
    everyone = [each.candidate.slots for each in tried]
    shared = {
        name: choice
        for name, choice in slots[0].items()
        if all(other.get(name) == choice for other in slots) and any(other.get(name) != choice for other in everyone)
    }
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, choice in ((name, choice) for each in slots for name, choice in each.items()):
        counts[name][str(choice)] += 1
    first = members[0].failure
    return FailureGroup(
        template=template,
        status=status,
        error=error,
        example=first.message if first else "",
        count=len(members),
        tried=len(tried),
        shared_slots=shared,
        slots={name: dict(chosen.most_common()) for name, chosen in sorted(counts.items())},
        sources=tuple(str(each.source) for each in members),
    )
