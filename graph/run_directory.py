"""The directory of one run: sources and evaluations by candidate id, records by name, so that state can hold ids."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ..state.base import Record
from ..state.brief import Scored
from ..state.candidate import Candidate, normalised_hash
from ..state.errors import InfraError, InvalidInput
from ..state.evaluation import Evaluation
from ..state.problem import Problem
from ..state.trajectory import Row
from ..tools.file_lock import hold
from ..tools.line_file import append_line
from ..tools.whole_file import write_whole

TRAJECTORY = "trajectory.jsonl"
CHECKPOINT = "checkpoint.sqlite"
ANSWERS = "answers.jsonl"
R = TypeVar("R", bound=Record)
T = TypeVar("T")


def new_run_directory(out: Path, problem_file: Path) -> Path:
    """Makes `out/<problem>/<time>` and returns it. Raises InvalidInput where that cannot be written."""
    name = problem_folder(problem_file)
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        path = out / name / (stamp if number == 0 else f"{stamp}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not path.is_dir():
                raise InvalidInput(f"{path}: is a file; choose another folder with --out") from None
        except OSError as error:
            raise InvalidInput(f"{out}: cannot be written ({error.strerror}); choose another with --out") from error
        else:
            return path
    raise InvalidInput(f"{out}: too many runs of {name} in one second")


def problem_folder(problem_file: Path) -> str:
    """Name of the folder that holds a problem's runs."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", problem_file.stem) or "problem"


def latest_run_directory(out: Path, problem_file: Path) -> Path:
    """The newest run of a problem that can be resumed, of those that have read it. Raises InvalidInput if none."""
    folder = out / problem_folder(problem_file)
    begun = (path for path in folder.glob(f"*/{CHECKPOINT}") if path.with_name("problem.json").is_file())
    runs = sorted(begun, key=lambda path: path.stat().st_mtime)
    if not runs:
        raise InvalidInput(f"{folder}: no run to resume; start one without --resume")
    return runs[-1].parent


def parsed(file: Path, parse: Callable[[str], T]) -> T | None:
    """What a run's file holds, None where there is none. Raises InvalidInput where it cannot be understood."""
    try:
        return parse(file.read_text(encoding="utf-8")) if file.exists() else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        fault = f"{file}: cannot be read ({fault_of(error)})"
        raise InvalidInput(f"{fault}; put it back as it was, or start the run again") from error


def fault_of(error: Exception) -> str:
    """What is wrong with a file, in a few words."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg']}" if where else first["msg"]
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class RunDirectory:
    """Reads and writes one run's files. Safe to use from several threads of one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._evaluations = parsed(path / "evaluations.jsonl", _evaluations) or {}
        self._orders: dict[str, tuple[int, int]] = {}
        (path / "candidates").mkdir(parents=True, exist_ok=True)

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other processes from going on with the run meanwhile. Raises InvalidInput where one does already."""
        lock = hold(self.path / "lock")
        if lock is None:
            raise InvalidInput(f"{self.path}: another process goes on with this run; wait for its end, or stop it")
        with lock:
            yield

    @property
    def read_problem(self) -> bool:
        """Whether the run came so far as to have its problem: before that there is nothing to go on with."""
        return (self.path / "problem.json").is_file()

    @property
    def untried(self) -> bool:
        """Whether nothing lies here that would be lost: no verdict, and no answer of a model."""
        return not any((self.path / name).exists() for name in ("evaluations.jsonl", ANSWERS))

    def check_problem(self, file: Path) -> None:
        """Raises InvalidInput where the run is one of another problem, or of another text of this one."""
        known = self.read_record("problem", Problem)
        if known is not None and known.source != file.read_text(encoding="utf-8"):
            text = f"{self.path}: is a run of {known.path} as it was then, and {file} holds another text"
            raise InvalidInput(f"{text}; give the file of that run, or start one without --resume")

    def write_text(self, name: str, text: str) -> Path:
        """Writes a file whole or not at all."""
        return write_whole(self.path / name, text)

    def write_record(self, name: str, record: Record) -> None:
        """Writes a record as `<name>.json`."""
        self.write_text(f"{name}.json", record.model_dump_json())

    def read_record(self, name: str, kind: type[R]) -> R | None:
        """A record written before, None where there is none. Raises InvalidInput."""
        return parsed(self.path / f"{name}.json", kind.model_validate_json)

    def source_path(self, candidate_id: str) -> Path:
        return self.path / "candidates" / f"{candidate_id}.py"

    def add_candidate(self, candidate: Candidate, order: tuple[int, int] = (0, 0)) -> None:
        """Keeps a candidate; of several with an id the one of the least order stays, whichever thread comes first."""
        with self._lock:
            earliest = self._orders.get(candidate.id)
            if earliest is None and self.source_path(candidate.id).exists():
                return  # From before this process: a resumed run.
            if earliest is None or order < earliest:
                self._orders[candidate.id] = order
                self.write_text(f"candidates/{candidate.id}.json", candidate.model_dump_json(exclude={"source"}))
                self.write_text(f"candidates/{candidate.id}.py", candidate.source)

    def candidate(self, candidate_id: str) -> Candidate:
        """The candidate as its files on disk have it now. Raises InfraError where they are gone or were changed."""
        try:
            source = self.source_path(candidate_id).read_text(encoding="utf-8")
            fields = json.loads((self.path / "candidates" / f"{candidate_id}.json").read_text(encoding="utf-8"))
        except OSError as error:
            raise InfraError(f"{self.source_path(candidate_id)}: cannot be read ({error.strerror})") from error
        if normalised_hash(source) != candidate_id:
            raise InfraError(f"{self.source_path(candidate_id)}: was changed during the run")
        return Candidate.model_validate({**fields, "source": source})

    def add_evaluation(self, evaluation: Evaluation, kind: str) -> None:
        """Appends an evaluation; `kind` is the tier that was asked for."""
        line = json.dumps({"kind": kind, "evaluation": evaluation.model_dump(mode="json")})
        with self._lock:
            append_line(self.path / "evaluations.jsonl", line)
            self._evaluations[evaluation.candidate, kind] = evaluation

    def evaluation(self, candidate_id: str, kind: str = "quick") -> Evaluation | None:
        return self._evaluations.get((candidate_id, kind))

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Adds to the trajectory; a row that is there already (its node was run twice) is not added again."""
        known = {row.id: row for row in (*self.rows(), *rows)}
        self.write_text(TRAJECTORY, "".join(f"{row.model_dump_json()}\n" for row in known.values()))

    def rows(self) -> tuple[Row, ...]:
        """The trajectory so far, in the order of evaluation. Raises InvalidInput."""
        read = parsed(self.path / TRAJECTORY, lambda text: tuple(map(Row.model_validate_json, text.splitlines())))
        return read or ()

    def scored(self, candidate_id: str) -> Scored:
        """A candidate with its first evaluation. Raises InfraError where it has none."""
        evaluation = self.evaluation(candidate_id)
        if evaluation is None:
            raise InfraError(f"{self.path}: no evaluation of {candidate_id}")
        return Scored(candidate=self.candidate(candidate_id), evaluation=evaluation)


def _evaluations(text: str) -> dict[tuple[str, str], Evaluation]:
    found = {}
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # A run that was killed while writing leaves half a line; that candidate is judged again.
        evaluation = Evaluation.model_validate(entry["evaluation"])
        found[evaluation.candidate, entry["kind"]] = evaluation
    return found
