"""Recordings: every answer of a harness, planner and writers in one JSONL file, and the same interfaces over it.

A replay needs no GPU, torch, key or network, and the same problem and settings give the same trajectory. One file may
hold several problems. Each line is `{"kind": ..., "problem": id, "key": [...], "value": ...}`.
"""

import json
import threading
import time
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ..state.base import Record
from ..state.brief import Brief
from ..state.candidate import Candidate
from ..state.device import DeviceSheet
from ..state.errors import InfraError, InvalidInput, InvalidProblem
from ..state.evaluation import CompileReport, Evaluation, Tier
from ..state.lowered import LoweredGraph
from ..state.plan import Plan
from ..state.problem import Problem
from ..state.profile import Profile
from ..state.timing import Baselines
from .harness import Harness
from .line_file import append_line

R = TypeVar("R", bound=Record)
Key = tuple[str, ...]
_START = '{"kind": "'


class PlannerLike(Protocol):
    """What a planner looks like from here."""

    def plan(self, problem: Problem, graph: LoweredGraph, device: DeviceSheet) -> Plan: ...


class WriterLike(Protocol):
    """What a writer looks like from here."""

    name: str

    def propose(self, brief: Brief, n: int) -> list[Candidate]: ...


class Recording:
    """Answers by kind, problem and key. Reads the file at once; what is added is on the disk at once.

    A half line that a killed process left is skipped; its answer is as if it had not been recorded.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str, Key], Any] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                if _is_half(line):
                    continue
                entry = json.loads(line)
                self._answers[entry["kind"], entry["problem"], tuple(entry["key"])] = entry["value"]
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidInput(f"{path}: line {number} is not part of a recording; record it again") from error

    def add(self, kind: str, problem: str, key: Key, value: Any) -> None:
        """Keeps an answer; one that is there already stays."""
        with self._lock:
            if (kind, problem, key) in self._answers:
                return
            self._answers[kind, problem, key] = value
            append_line(self.path, json.dumps({"kind": kind, "problem": problem, "key": key, "value": value}))

    def find(self, kind: str, problem: str, key: Key = ()) -> Any | None:
        return self._answers.get((kind, problem, key))

    def all(self, kind: str) -> list[tuple[str, Key, Any]]:
        """(problem, key, value) of every answer of a kind, in recorded order."""
        return [(problem, key, value) for (own, problem, key), value in self._answers.items() if own == kind]

    def record(self, kind: str, problem: str, key: Key, made: Record) -> None:
        self.add(kind, problem, key, made.model_dump(mode="json"))

    def read(self, model: type[R], kind: str, problem: str, key: Key = ()) -> R:
        """A recorded answer as its record. Raises InfraError where it was not recorded."""
        value = self.find(kind, problem, key)
        if value is None:
            about = f" of {' '.join(key)}" if key else ""
            raise InfraError(f"{self.path}: the recording has no {kind}{about} for problem {problem}; record it again")
        return model.model_validate(value)


class RecordingHarness:
    """Passes everything on to a harness and records its answers."""

    def __init__(self, harness: Harness, recording: Path | Recording) -> None:
        self._harness = harness
        self._recording = _opened(recording)

    def device(self) -> DeviceSheet:
        sheet = self._harness.device()
        self._recording.record("device", "", (), sheet)
        return sheet

    def load(self, path: Path) -> Problem:
        problem = self._harness.load(path)
        self._recording.record("problem", problem.id, (), problem)
        return problem

    def vet(self, problem: Problem) -> tuple[str, ...]:
        notes = self._harness.vet(problem)
        self._recording.add("notes", problem.id, (), list(notes))
        return notes

    def renew(self, problem: Problem) -> None:
        self._harness.renew(problem)

    def lower(self, problem: Problem) -> LoweredGraph:
        graph = self._harness.lower(problem)
        self._recording.record("lowered", problem.id, (), graph)
        return graph

    def baseline(self, problem: Problem) -> Baselines:
        baselines = self._harness.baseline(problem)
        self._recording.record("baselines", problem.id, (), baselines)
        return baselines

    def compile(self, problem: Problem, candidate: Candidate) -> CompileReport:
        report = self._harness.compile(problem, candidate)
        self._recording.record("compile", problem.id, (candidate.id,), report)
        return report

    def evaluate(self, problem: Problem, candidate: Candidate, tier: Tier = "quick") -> Evaluation:
        evaluation = self._harness.evaluate(problem, candidate, tier)
        self._recording.record("evaluation", problem.id, (candidate.id, tier), evaluation)
        return evaluation

    def profile(self, problem: Problem, candidate: Candidate) -> Profile:
        profile = self._harness.profile(problem, candidate)
        self._recording.record("profile", problem.id, (candidate.id,), profile)
        return profile

    def close(self) -> None:
        self._harness.close()


class ReplayHarness:
    """Answers from a recording. A miss is an InfraError that names the candidate.

    `pace` sleeps that share of each evaluation's recorded seconds, to show or interrupt a run; 0 answers at once.
    """

    def __init__(self, recording: Path, pace: float = 0.0) -> None:
        if not recording.is_file():
            raise InvalidInput(f"{recording}: no such recording; make one with --record")
        self._recording = Recording(recording)
        self._pace = pace

    def device(self) -> DeviceSheet:
        return self._recording.read(DeviceSheet, "device", "")

    def load(self, path: Path) -> Problem:
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidProblem(f"{path}: cannot be read; give the path of a Python file") from error
        for _, _, value in self._recording.all("problem"):
            if value["source"] == source:
                return Problem.model_validate({**value, "path": str(path)})
        raise InfraError(f"{path}: not in the recording {self._recording.path}; run it once with --record")

    def vet(self, problem: Problem) -> tuple[str, ...]:
        return tuple(self._recording.find("notes", problem.id) or ())

    def renew(self, problem: Problem) -> None:
        """Nothing is drawn here."""

    def lower(self, problem: Problem) -> LoweredGraph:
        return self._recording.read(LoweredGraph, "lowered", problem.id)

    def baseline(self, problem: Problem) -> Baselines:
        return self._recording.read(Baselines, "baselines", problem.id)

    def compile(self, problem: Problem, candidate: Candidate) -> CompileReport:
        return self._recording.read(CompileReport, "compile", problem.id, (candidate.id,))

    def evaluate(self, problem: Problem, candidate: Candidate, tier: Tier = "quick") -> Evaluation:
        evaluation = self._recording.read(Evaluation, "evaluation", problem.id, (candidate.id, tier))
        time.sleep(self._pace * evaluation.seconds)
        return evaluation

    def profile(self, problem: Problem, candidate: Candidate) -> Profile:
        value = self._recording.find("profile", problem.id, (candidate.id,))
        if value is None:
            return Profile(candidate=candidate.id, reason="not profiled (not in the recording)")
        return Profile.model_validate(value)

    def close(self) -> None:
        pass


class RecordingPlanner:
    """Records a planner's plans."""

    def __init__(self, planner: PlannerLike, recording: Path | Recording) -> None:
        self._planner = planner
        self._recording = _opened(recording)

    def plan(self, problem: Problem, graph: LoweredGraph, device: DeviceSheet) -> Plan:
        plan = self._planner.plan(problem, graph, device)
        self._recording.record("plan", problem.id, (), plan)
        return plan


class ReplayPlanner:
    """Hands out recorded plans."""

    def __init__(self, recording: Path | Recording) -> None:
        self._recording = _opened(recording)

    def plan(self, problem: Problem, graph: LoweredGraph, device: DeviceSheet) -> Plan:
        return self._recording.read(Plan, "plan", problem.id)


class RecordingWriter:
    """Records a writer's proposals by what it was asked for."""

    def __init__(self, writer: WriterLike, recording: Path | Recording) -> None:
        self.name = writer.name
        self.heeds_counters = getattr(writer, "heeds_counters", True)
        self._writer = writer
        self._recording = _opened(recording)

    def propose(self, brief: Brief, n: int) -> list[Candidate]:
        made = self._writer.propose(brief, n)
        self._recording.add("proposal", brief.problem.id, _request(brief, n), [c.model_dump(mode="json") for c in made])
        return made


class ReplayWriter:
    """Proposes what was recorded for the same request; for another request, recorded candidates not yet tried."""

    def __init__(self, recording: Path | Recording) -> None:
        self.name = "replay"
        self._recording = _opened(recording)

    def propose(self, brief: Brief, n: int) -> list[Candidate]:
        known = self._recording.find("proposal", brief.problem.id, _request(brief, n))
        if known is None and brief.directive == "fit":
            return []  # Recorded before searches asked for it, or another seed's: what they asked else is no answer.
        if known is None:
            known = [
                candidate
                for problem, key, made in self._recording.all("proposal")
                if problem == brief.problem.id and key[:2] == (brief.language, brief.directive)
                for candidate in made
            ]
        candidates = [Candidate.model_validate(value) for value in known]
        return [candidate for candidate in candidates if candidate.id not in brief.tried][:n]


def _is_half(line: str) -> bool:
    """Whether a line is the beginning of an entry and no more, as a process leaves that is killed while it writes."""
    if not line.startswith(_START[: len(line)]):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _request(brief: Brief, n: int) -> Key:
    return (brief.language, brief.directive, str(brief.rng_seed), str(n))


def _opened(recording: Path | Recording) -> Recording:
    return recording if isinstance(recording, Recording) else Recording(recording)
