"""The directory of one run: sources and evaluations by candidate id, records by name, so that state can hold ids."""

import json
import os
import re
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from ..state.base import Record
from ..state.brief import Scored
from ..state.candidate import Candidate, normalised_hash
from ..state.errors import InfraError, InvalidInput
from ..state.evaluation import Evaluation
from ..state.trajectory import Row

TRAJECTORY = "trajectory.jsonl"
R = TypeVar("R", bound=Record)


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
    """The newest run of a problem that can be resumed. Raises InvalidInput if there is none."""
    folder = out / problem_folder(problem_file)
    runs = sorted(folder.glob("*/checkpoint.sqlite"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise InvalidInput(f"{folder}: no run to resume; start one without --resume")
    return runs[-1].parent


def append_line(path: Path, line: str) -> None:
    """Appends a line that is on the disk when this returns; a half line that a killed process left is ended first."""
    with path.open("ab+") as file:
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())


class RunDirectory:
    """Reads and writes one run's files. Safe to use from several threads of one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._evaluations: dict[tuple[str, str], Evaluation] = {}
        self._orders: dict[str, tuple[int, int]] = {}
        (path / "candidates").mkdir(parents=True, exist_ok=True)
        self._read_evaluations()

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.sqlite"

    def write_text(self, name: str, text: str) -> Path:
        """Writes a file whole or not at all."""
        target = self.path / name
        part = target.with_name(target.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(target)
        return target

    def write_record(self, name: str, record: Record) -> None:
        """Writes a record as `<name>.json`."""
        self.write_text(f"{name}.json", record.model_dump_json())

    def read_record(self, name: str, kind: type[R]) -> R | None:
        """A record written before, None where there is none."""
        file = self.path / f"{name}.json"
        return kind.model_validate_json(file.read_text(encoding="utf-8")) if file.exists() else None

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
        """The trajectory so far, in the order of evaluation."""
        file = self.path / TRAJECTORY
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return tuple(Row.model_validate_json(line) for line in lines)

    def scored(self, candidate_id: str) -> Scored:
        """A candidate with its first evaluation. Raises InfraError where it has none."""
        evaluation = self.evaluation(candidate_id)
        if evaluation is None:
            raise InfraError(f"{self.path}: no evaluation of {candidate_id}")
        return Scored(candidate=self.candidate(candidate_id), evaluation=evaluation)

    def _read_evaluations(self) -> None:
        file = self.path / "evaluations.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        for line in lines:
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue  # A run that was killed while writing leaves half a line; that candidate is judged again.
            evaluation = Evaluation.model_validate(entry["evaluation"])
            self._evaluations[evaluation.candidate, entry["kind"]] = evaluation
