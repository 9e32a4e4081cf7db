"""Programs of their own with a candidate in them, alone or under a tool: boxed, on inputs that a judge wrote."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..state.base import digest
from ..state.candidate import Candidate
from ..state.problem import Problem
from . import scratch_folder, wire
from .box_users import next_user
from .cell import Cell
from .compile_pool import Compiled, CompilePool
from .fork_server import ForkServer, Spawn
from .judge_handle import JudgeHandle

LOG = "{log}"
"""Stands for the path of a tool's report in its options."""
_OUTPUTS = "outputs.bin"
_HAND_OVER_S = 180.0
_START_S = 60.0
_PACKAGE = ("*.py", "state/*.py", "tools/*.py", "tools/worker/*.py")
_MOST_FILE_BYTES, _MOST_SCRATCH_BYTES = 8 << 30, 12 << 30
_MOST_FILES = 4096
_MOST_REPLY_BYTES = 32 << 20


class CannotRun(Exception):
    """A program of its own cannot be had for this candidate; says why in a few words."""


@dataclass(frozen=True)
class Order:
    """What to run. The candidate is called once, then `warm_ups` times, then `captured` times under the profiler."""

    tool: tuple[str, ...] = ()
    """The tool with its options, before the program; empty for the program alone."""
    environment: dict[str, str] = field(default_factory=dict)
    deliver: bool = False
    """Leaves the first call's output to be compared."""
    warm_ups: int = 0
    captured: int = 0
    gate: str = ""
    """Waits, once everything is loaded, until the job's gate of this name is opened."""
    hash_seed: int = 0
    deadline_s: float = 60.0


@dataclass(frozen=True)
class Ran:
    """How a program ended. All of it but the tool's log is the candidate's word."""

    code: int
    timed_out: bool
    log: str
    output: str
    notes: tuple[str, ...]
    outputs_path: Path


@dataclass(frozen=True)
class Job:
    """A candidate with the inputs of one workload, written to files."""

    problem: Problem
    candidate: Candidate
    compiled: Compiled
    workload: str
    folder: Path

    def open_gate(self, name: str) -> None:
        """Lets programs go on that wait for it."""
        (self.folder / "job" / name).touch(0o644)


class Outside:
    """Runs orders. The caller sees to it that nothing is timed meanwhile."""

    def __init__(self, server: ForkServer, work_dir: Path, compiler: CompilePool, max_memory_bytes: int) -> None:
        self._server = server
        self._work_dir = work_dir
        self._compiler = compiler
        self._max_memory_bytes = max_memory_bytes
        self._lock = threading.Lock()
        self.namespaces = True
        self.separate_user = True
        """Whether the candidate runs as another user than the tool over it."""

    def gaps(self) -> tuple[str, ...]:
        """What weakens the evidence on this machine."""
        text = "a tool and the candidate under it are one user here: its report is as good as the candidate is honest"
        return () if self.separate_user else (text,)

    @contextmanager
    def job(
        self, judge: JudgeHandle, problem: Problem, candidate: Candidate, compiled: Compiled, workload: str
    ) -> Iterator[Job]:
        """Has the judge write a workload's inputs, those of an awkward one where the name is empty.

        Everything is removed in the end. Raises CannotRun, InfraError.
        """
        folder = self._work_dir / "outside" / uuid4().hex[:12]
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        try:
            handed = folder / "job"
            handed.mkdir()
            reply = judge.ask("hand_over", _HAND_OVER_S, folder=str(handed), workload=workload, candidate=candidate.id)
            if "refused" in reply:
                raise CannotRun(str(reply["refused"]))
            _open_to_all(handed)
            yield Job(problem, candidate, compiled, str(reply["workload"]), folder)
        finally:
            scratch_folder.remove(folder)

    def run(self, job: Job, order: Order) -> Ran:
        """One program, from start to end. Raises InfraError where its box does not start, CannotRun if it is lost."""
        own = self._compiler.fresh_box(job.compiled, job.candidate, job.folder / uuid4().hex[:8])
        own.chmod(0o755)
        scratch = self._compiler.box_of(job.compiled, job.candidate) if self.namespaces else own
        box = {
            "scratch": str(scratch),
            "origin": str(own),
            "hidden": [str(self._work_dir)],
            "masked": [job.problem.path],
            "readable": [str(job.folder / "job"), str(self._package()), *_folders_of(order.tool)],
            "max_file_bytes": _MOST_FILE_BYTES,
            "max_scratch_bytes": _MOST_SCRATCH_BYTES,
            "max_open_files": _MOST_FILES,
            "namespaces": self.namespaces,
            "tool": True,
        }
        body = {
            "options": list(order.tool),
            "environment": {**order.environment, "PYTHONHASHSEED": str(order.hash_seed)},
            "package": str(self._package()),
            "deadline_s": order.deadline_s,
            "order": {
                "job": str(job.folder / "job"),
                "scratch": str(scratch),
                "namespaced": self.namespaces,
                "user": next_user(),
                "deliver": order.deliver,
                "warm_ups": order.warm_ups,
                "captured": order.captured,
                "gate": order.gate,
            },
        }
        reply, notes = self._in_box(box, body, order.deadline_s)
        return Ran(
            code=int(reply["code"]),
            timed_out=bool(reply["timed_out"]),
            log=str(reply["log"]),
            output=str(reply["output"]),
            notes=tuple(notes),
            outputs_path=own / _OUTPUTS,
        )

    def _in_box(self, box: dict[str, Any], body: dict[str, Any], deadline_s: float) -> tuple[dict[str, Any], list[str]]:
        """Leaves the scratch folder where it is: the output in it is still to be read."""
        cell = Cell(self._server, Spawn("tool", {}, box, self._max_memory_bytes), deadline_s)
        try:
            cell.wait_until_ready()
            wire.send(cell.channel, body)
            return wire.receive(cell.channel, deadline_s + _START_S, max_bytes=_MOST_REPLY_BYTES).body, cell.notes
        except wire.WireError as error:
            raise CannotRun(f"the program was lost: {error}") from error
        finally:
            cell.channel.close()
            self._server.kill(cell.pid)

    def _package(self) -> Path:
        """A copy of what the program imports: the harness's own folder may hold runs and problems."""
        source = Path(__file__).resolve().parent.parent
        paths = sorted(path for pattern in _PACKAGE for path in source.glob(pattern))
        facts = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths]
        target = self._work_dir / "outside" / f"package-{digest(facts)[:12]}"
        with self._lock:
            if target.exists():
                return target
            made = target.with_name(uuid4().hex)
            for path in paths:
                copy = made / "warpsmith" / path.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
            _open_to_all(made)
            with suppress(OSError):  # another process was first
                made.rename(target)
        return target


def _open_to_all(folder: Path) -> None:
    """The candidate's user reads it, whatever umask the harness was started with."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _folders_of(tool: tuple[str, ...]) -> list[str]:
    return [str(Path(tool[0]).resolve().parent)] if tool else []


def last_line(output: str) -> str:
    """The last line that a program printed, for a reason that people read: it is the candidate's word."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("==")]
    return "".join(c for c in lines[-1][:160] if c.isprintable()) if lines else "it printed nothing"
