"""Compiling apart from running: boxed workers without a GPU, a few at once, results kept by content.

A worker runs the candidate's forward on fake tensors: kernels compile for the target architecture and are never
launched. What it compiled stays in a folder that becomes the candidate's scratch, at the same path for the compiler
and for the run (Triton's cache files hold absolute paths), so running it later finds everything compiled. Where boxes
have a view of their own, that path is one for all candidates.
"""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from ..state.base import Record, digest
from ..state.candidate import Candidate
from ..state.device import DeviceSheet
from ..state.evaluation import CompileReport
from ..state.problem import Problem, Workload
from . import occupancy, scratch_folder, wire
from .box_users import next_user
from .compiler_output import trimmed
from .fork_server import ForkServer, Spawn
from .whole_file import write_whole

_START_S = 30.0
COMPILE_S = 120.0
_MEMORY_BYTES = 8 << 30


_RECORDS = 3
"""Another number where records come to hold more: older ones are not taken for whole."""


class Launch(Record):
    """One kernel launch that the fake forward would have made."""

    kernel: str
    blocks: int
    num_warps: int
    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    tensor_bytes: int = 0


class LibraryCall(Record):
    """One operator that the fake forward left to PyTorch."""

    op: str
    tensor_bytes: int = 0


class Compiled(Record):
    """Report, traced launches, and where the compiled code is."""

    report: CompileReport
    launches: tuple[Launch, ...] = ()
    library: tuple[LibraryCall, ...] = ()
    key: str = ""
    """Digest of what was compiled and with what; empty where nothing was."""
    caches: str = ""
    """Name of the folder with what was compiled: never written again, so that other processes may read it meanwhile."""


class CompilePool:
    """Compiles candidates, each once for a problem, at most `workers` at a time and each for at most `limit_s`."""

    def __init__(
        self, server: ForkServer, work_dir: Path, device: DeviceSheet, workers: int, limit_s: float = COMPILE_S
    ) -> None:
        self._limit_s = limit_s
        self._server = server
        self._work_dir = work_dir
        self._device = device
        self._slots = threading.Semaphore(workers)
        self.shown_at: Path | None = None
        """Where every box shows its scratch folder; None where boxes see the machine's own file system."""
        self.boxes = work_dir / "boxes"
        """Where scratch folders lie; by key where boxes show them at their own path, and then for this pool alone."""
        self._known: dict[str, Compiled] = {}
        self._lock = threading.Lock()

    def compile(self, problem: Problem, candidate: Candidate, hidden: Sequence[Workload] = ()) -> Compiled:
        """Compiles, or answers from memory or from the work folder. What fails on hidden workloads only is not told."""
        made_with = (self._device.arch, self._device.versions, str(self.shown_at or self.boxes), _RECORDS)
        key = digest(problem.id, candidate.id, *made_with)[:20]
        with self._lock:
            known = self._known.get(key) or self._kept(key)
        if known is not None:
            return known.model_copy(update={"report": known.report.model_copy(update={"cached": True, "seconds": 0.0})})
        syntax = _syntax_error(candidate)
        if syntax:
            return Compiled(report=CompileReport(ok=False, seconds=0.0, error=syntax))
        with self._slots:
            compiled = self._compile(problem, candidate, key, hidden)
        with self._lock:
            self._known[key] = compiled
        self._keep(compiled)
        return compiled

    def _record_of(self, key: str) -> Path:
        """Beside the caches, not in them: a candidate writes there while it compiles."""
        return self._work_dir / "compiled" / f"{key}.json"

    def _keep(self, compiled: Compiled) -> None:
        """The record is written last and replaces whole, so a folder without one was never finished.

        What was not compiled ahead is tried again by the next run: the machine may have been short of something.
        """
        if compiled.report.ok and not compiled.report.warnings:
            write_whole(self._record_of(compiled.key), compiled.model_dump_json())

    def _kept(self, key: str) -> Compiled | None:
        try:
            found = Compiled.model_validate_json(self._record_of(key).read_text())
        except (OSError, ValidationError):
            return None  # never compiled here, or cut off while it was written
        self._known[key] = found
        return found

    def box_of(self, compiled: Compiled, candidate: Candidate) -> Path:
        """Where a candidate's scratch folder is from inside, for its compiler and for every run."""
        return self.shown_at or self.boxes / (compiled.key or candidate.id)

    def fresh_box(self, compiled: Compiled, candidate: Candidate, folder: Path | None = None) -> Path:
        """A scratch folder with the compiled caches and nothing that an earlier run of the candidate left behind.

        By default where it is from inside; another `folder` has to be shown there for Triton to find its caches.
        """
        box = folder or self.box_of(compiled, candidate)
        scratch_folder.remove(box)
        box.mkdir(parents=True)
        self.fill(box, compiled, candidate)
        return box

    def fill(self, box: Path, compiled: Compiled, candidate: Candidate) -> None:
        """Puts compiled caches and source into a scratch folder that is new."""
        master = self._work_dir / "compiled" / compiled.caches
        if compiled.caches and master.exists():
            scratch_folder.copy_files(master, box)
        scratch_folder.write_source(box, candidate.source)

    def _compile(self, problem: Problem, candidate: Candidate, key: str, hidden: Sequence[Workload]) -> Compiled:
        # With a view of its own a box shows any folder at one path: then no two compilations share one.
        folder = self.boxes / (uuid4().hex if self.shown_at else key)
        try:
            return self._compile_in(folder, problem, candidate, key, hidden)
        finally:
            scratch_folder.remove(folder)

    def _compile_in(
        self, folder: Path, problem: Problem, candidate: Candidate, key: str, hidden: Sequence[Workload]
    ) -> Compiled:
        started = time.monotonic()
        scratch_folder.remove(folder)
        folder.mkdir(parents=True)
        scratch_folder.write_source(folder, candidate.source)
        shown = self.shown_at or folder
        box = {
            "scratch": str(shown),
            "origin": str(folder),
            "hidden": [str(self._work_dir)],
            "masked": [problem.path],
            "user": next_user(),
        }
        pid, channel = self._server.spawn(Spawn("compile", {"arch": self._device.arch}, box, _MEMORY_BYTES))
        started_up = False
        try:
            wire.receive(channel, _START_S)
            started_up = True
            told, unseen = ([list(workload.inputs) for workload in some] for some in (problem.workloads, hidden))
            order = {"path": str(shown / "candidate.py"), "init": problem.init_arguments}
            wire.send(channel, {**order, "workloads": told, "hidden": unseen})
            body = printable(wire.receive(channel, self._limit_s, max_bytes=4 << 20).body)
        except wire.WireTimeout:
            body = {"ok": False, "error": f"compiling did not end within {self._limit_s:.0f} s"}
            if not started_up:  # nothing of the candidate ran yet: a busy machine is nobody's compile error
                body = {"ok": True, "note": "not compiled ahead: the compile worker did not start in time"}
        except wire.WireError:
            # The forward may have ended it on fake tensors; whether it does so on real ones is for the run to find out.
            body = {"ok": True, "note": "not compiled ahead: the compile worker's process ended"}
        finally:
            channel.close()
            self._server.kill(pid)
        seconds = time.monotonic() - started
        try:
            launches = tuple(Launch.model_validate(launch) for launch in body.get("launches", ())[:256])
            library = tuple(LibraryCall.model_validate(call) for call in body.get("library", ())[:256])
            report = CompileReport(
                ok=bool(body["ok"]),
                seconds=seconds,
                kernels=tuple(body.get("kernels", ())[:256]),
                error=trimmed(str(body.get("error", ""))),
                warnings=trimmed(str(body.get("note", ""))),
            )
        except (KeyError, TypeError, ValidationError) as error:
            report = CompileReport(
                ok=False, seconds=seconds, error=f"the compile worker's answer is unreadable: {error}"
            )
            launches, library = (), ()
        kernels = occupancy.with_launches(report.kernels, launches, self._device)
        report = report.model_copy(update={"kernels": kernels})
        if not report.ok:
            return Compiled(report=report, launches=launches, library=library, key=key)
        caches = f"{key}-{uuid4().hex[:8]}"
        scratch_folder.copy_files(folder, self._work_dir / "compiled" / caches)
        return Compiled(report=report, launches=launches, library=library, key=key, caches=caches)


def printable(value: Any) -> Any:
    """JSON values with half characters replaced: they can be received and cannot be written."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    return [printable(item) for item in value] if isinstance(value, list) else value


def _syntax_error(candidate: Candidate) -> str:
    try:
        compile(candidate.source, "candidate.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"candidate.py: {type(error).__name__}: {error}"
    return ""
