"""The library: verified kernels of earlier runs, by structure, types and GPU, offered first in later runs.

What it offers is judged like anything else; shapes may differ. A template's kernel is written anew for the problem at
hand from its slots, any other is offered as it is.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import ValidationError

from ..state.base import Record, digest
from ..state.brief import Brief
from ..state.candidate import Candidate, Language, SlotValue
from ..state.errors import InvalidInput
from ..state.plan import Plan
from ..state.program import Load, LoopProgram, MatmulProgram, Operand, Store
from ..sub_agents.writer import Writer

OFFERED = 2
"""Most kernels offered to a run in each language."""
LARGE = 16
"""Integers from here on are taken for sizes, which may differ."""
SCHEMA = """
create table if not exists kernels (
  structure text not null, gpu text not null, id text not null, language text not null, problem text not null,
  problem_id text not null, speedup real not null, made text not null, entry text not null,
  primary key (structure, gpu, id)
)
"""


class LibraryEntry(Record):
    """One verified kernel."""

    candidate: Candidate
    structure: str
    gpu: str
    problem: str
    problem_id: str
    workloads: dict[str, float]
    """Median ms by workload."""
    speedup: float
    made: str
    """Date of the run, ISO 8601."""
    warpsmith_version: str


@runtime_checkable
class Reproducing(Protocol):
    """A writer that can make a candidate with given slots for another problem of the same structure."""

    def reproduce(self, brief: Brief, slots: dict[str, SlotValue]) -> Candidate | None: ...


class Library:
    """One SQLite file. Safe to use from several processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _open(self, make: bool = False) -> Iterator[sqlite3.Connection]:
        if make:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        elif self.path.is_dir():
            raise InvalidInput(f"{self.path}: is a folder; name the library's file in it")
        elif not self.path.is_file():
            raise InvalidInput(f"{self.path}: no such library; runs on a GPU with --library {self.path} make one")
        try:
            with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
                connection.execute(SCHEMA)
                yield connection
        except sqlite3.DatabaseError as error:
            raise InvalidInput(f"{self.path}: is not a library ({error}); choose another file") from error

    def check(self) -> None:
        """Raises InvalidInput where something else than a library lies at the path; nothing at all is fine."""
        if self.path.exists():
            with self._open():
                pass

    def add(self, entry: LibraryEntry) -> None:
        """Keeps a kernel; a newer measurement of the same one replaces the older."""
        with self._open(make=True) as connection:
            connection.execute(
                "insert or replace into kernels values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    entry.structure,
                    entry.gpu,
                    entry.candidate.id,
                    entry.candidate.language,
                    entry.problem,
                    entry.problem_id,
                    entry.speedup,
                    entry.made,
                    entry.model_dump_json(),
                ),
            )

    def find(self, structure: str, gpu: str, language: Language) -> list[LibraryEntry]:
        """Kernels for a structure on a GPU, the fastest over its baseline first; none where there is no library yet.

        Those that another version wrote and this one cannot read are left out.
        """
        if not self.path.is_file():
            return []
        query = "select entry from kernels where structure = ? and gpu = ? and language = ? order by speedup desc, id"
        with self._open() as connection:
            rows = connection.execute(query, (structure, gpu, language)).fetchall()
        return [entry for (text,) in rows if (entry := _entry(text)) is not None]

    def entries(self) -> list[LibraryEntry]:
        """What this version can read, by problem, the fastest first. Raises InvalidInput where there is no library."""
        with self._open() as connection:
            rows = connection.execute("select entry from kernels order by problem, speedup desc, id").fetchall()
        return [entry for (text,) in rows if (entry := _entry(text)) is not None]

    def entry(self, id: str) -> LibraryEntry:
        """The kernel whose id begins so. Raises InvalidInput where there is none, or several, or it cannot be read."""
        query = "select id, entry from kernels where substr(id, 1, ?) = ? order by problem, speedup desc"
        with self._open() as connection:
            found = connection.execute(query, (len(id), id)).fetchall()
        if len({kernel for kernel, _ in found}) != 1:
            raise InvalidInput(f"{self.path}: {len(found)} kernels begin with {id!r}; `library list` shows all")
        entry = next((entry for _, text in found if (entry := _entry(text)) is not None), None)
        if entry is None:
            raise InvalidInput(f"{self.path}: kernel {found[0][0]} is of another version; read it with that one")
        return entry


def _entry(text: str) -> LibraryEntry | None:
    """An entry as it was written; None where another version wrote what this one cannot read."""
    try:
        return LibraryEntry.model_validate_json(text)
    except ValidationError:
        return None


def offered(library: Library, brief: Brief, writer: Writer | None) -> list[Candidate]:
    """Kernels of the library for a brief, made to fit the problem where a writer can."""
    structure = structure_key(brief.plan)
    found: dict[str, Candidate] = {}
    for entry in library.find(structure, brief.device.name, brief.language) if structure else []:
        candidate: Candidate | None = entry.candidate
        if entry.problem_id != brief.problem.id and entry.candidate.slots:
            own = isinstance(writer, Reproducing)
            candidate = writer.reproduce(brief, entry.candidate.slots) if own else None  # type: ignore[union-attr]
        if candidate is not None and candidate.id not in brief.tried:
            note = f"from the library: {entry.speedup:.3g}x on {entry.problem}"
            found.setdefault(candidate.id, candidate.model_copy(update={"note": note, "parent": None}))
    return list(found.values())[:OFFERED]


def structure_key(plan: Plan) -> str:
    """What a forward pass computes, without sizes and names: equal for problems that one kernel family serves.

    Empty for a plan without kernels, and for one that leaves operators to PyTorch.
    """
    if plan.forward is None or plan.forward.uncovered:
        return ""
    programs = [step for step in plan.forward.steps if isinstance(step, LoopProgram | MatmulProgram)]
    return digest([_program_structure(program) for program in programs])[:16] if programs else ""


def _program_structure(program: LoopProgram | MatmulProgram) -> list[Any]:
    names: dict[str, int] = {"acc": -1}

    def argument(value: object) -> object:
        if isinstance(value, str):
            return names.get(value, "size")
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= LARGE:
            return "size"
        return value

    for load in program.loads:
        names[load.name] = len(names)
    body = []
    tables: dict[str, int] = {}
    for statement in program.body:
        read = [tables.setdefault(statement.table, len(tables))] if statement.table else []
        arguments = [argument(each) for each in statement.args]
        body.append([statement.op, arguments, statement.dtype, statement.level, *read])
        names[statement.name] = len(names)
    shape: list[Any] = [len(program.space)]
    if isinstance(program, LoopProgram):
        shape.append(list(program.reduced))
    else:
        shape += [_access(program.a), _access(program.b)]
        if program.a.softmax is not None:
            softmax = program.a.softmax
            shape += [_program_structure(softmax.scores), softmax.ahead is None, softmax.zero_rows]
        if program.b.windows is not None:
            shape.append([[each.taps, each.stride, each.dilation, each.padding] for each in program.b.windows.axes])
    return [program.kind, shape, [_access(load) for load in program.loads], body, [_access(s) for s in program.stores]]


def _access(access: Load | Store | Operand) -> list[Any]:
    """Type, and along which axes it moves and is contiguous."""
    return [access.dtype, [0 if stride == 0 else 1 if stride == 1 else 2 for stride in access.strides]]


def entry_json(entry: LibraryEntry) -> str:
    """An entry without its source, for people."""
    return json.dumps(entry.model_dump(mode="json", exclude={"candidate": {"source"}}), indent=1)
