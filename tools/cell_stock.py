"""Boxed processes for candidates, one of them ready ahead and another on its way.

To open a process's GPU context takes longer than most of what a candidate is asked, and nothing may be timed meanwhile.
So where every box shows its own scratch folder at one path (`CompilePool.shown_at`), the next process waits, boxed and
empty, for a candidate to be put into its folder; and the one after it is boxed, which disturbs nobody, but has no GPU.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..state.candidate import Candidate
from ..state.errors import InfraError
from ..state.problem import Problem
from . import scratch_folder
from .box_users import next_user
from .cell import Cell
from .compile_pool import Compiled, CompilePool
from .fork_server import ForkServer, Spawn

_EVALUATE_S = 600.0
_Key = tuple[str | int, ...]


@dataclass(frozen=True)
class CellPlan:
    """What all cells of a harness have in common."""

    work_dir: Path
    params: dict[str, Any] = field(default_factory=dict)
    """For the process in it: its device, the blocking kernel."""
    namespaces: bool = True
    own_user: bool = False
    """Whether the process runs as another user, to whom its scratch folder must belong."""
    max_memory_bytes: int = 24 << 30


@dataclass(frozen=True)
class _Waiting:
    """A process for candidates of one problem that is there, or is being started."""

    problem: _Key
    cell: Future[Cell]


class CellStock:
    """Hands out cells. `quiet` is held while a process opens its GPU context or is ended: nothing is timed then."""

    def __init__(self, server: ForkServer, compiler: CompilePool, plan: CellPlan, quiet: threading.RLock) -> None:
        self._server = server
        self._compiler = compiler
        self._plan = plan
        self._quiet = quiet
        self._taken = threading.Semaphore(2)
        """Cells with a candidate in them: the one that is being judged, and the next."""
        self._lock = threading.Lock()
        self._next: _Waiting | None = None
        self._boxed: tuple[_Key, Cell] | None = None
        """The process after the next, without a GPU context; the opener's thread alone takes it and puts it there."""
        self._stopped = False
        self._opener = ThreadPoolExecutor(1, "cell")
        self._ahead = compiler.shown_at is not None

    @contextmanager
    def cell(self, problem: Problem, candidate: Candidate, compiled: Compiled) -> Iterator[Cell]:
        """A ready process with the candidate in its scratch folder and nothing of it loaded. Raises InfraError."""
        with self._taken, ExitStack() as ending:
            self._check_running()
            if self._ahead:
                cell = self._take(problem)
                ending.callback(self._end, cell)
                self._compiler.fill(cell.folder, compiled, candidate)
                if self._plan.own_user and os.geteuid() == 0:
                    scratch_folder.give_away(cell.folder, cell.user)
            else:
                cell = self._started(self._box(problem, self._compiler.fresh_box(compiled, candidate)))
                ending.callback(self._end, cell)
            yield cell

    @contextmanager
    def turn(self, cell: Cell) -> Iterator[None]:
        """A cell's time with the judge: nothing of it runs before, and nothing after. Raises InfraError if it died.

        What all boxes share (memory, the GPU) is then the next one's: it would be blamed for the lack of it.
        """
        if "running" not in self._server.status(cell.pid):
            raise InfraError("a sandboxed process ended while it waited for its turn")
        try:
            yield
        finally:
            cell.end()

    def discard(self) -> None:
        """Ends the one that waits: what broke a judge may have broken it too."""
        with self._lock:
            waiting, self._next = self._next, None
        self._discard(waiting)

    def stop(self) -> None:
        """From here on whoever asks for a cell gets an InfraError."""
        with self._lock:
            self._stopped = True

    def close(self) -> None:
        """Ends the one that waits. Stop first, and end what holds `quiet`."""
        self.stop()
        self.discard()
        self._opener.shutdown()
        if self._boxed is not None:
            self._end(self._boxed[1])

    def _check_running(self) -> None:
        if self._stopped:
            raise InfraError("the harness is closed")

    def _take(self, problem: Problem) -> Cell:
        """The process that waits, if it is for this problem and alive; another otherwise. Has the next one started."""
        with self._lock:
            waiting, self._next = self._next, None
        cell = None
        key = _key(problem)
        if waiting is not None and waiting.problem == key:
            try:
                cell = waiting.cell.result()
            except (InfraError, OSError):
                waiting = None  # Started anew here: what stopped that one may have passed.
        if cell is None or "running" not in self._server.status(cell.pid):
            self._discard(waiting)
            cell = self._started(self._boxed_empty(problem))
        with self._lock:
            if self._next is None and not self._stopped:
                self._next = _Waiting(key, self._opener.submit(self._open_next, problem))
                self._opener.submit(self._box_ahead, problem)
        return cell

    def _discard(self, waiting: _Waiting | None) -> None:
        if waiting is not None and waiting.cell.exception() is None:
            self._end(waiting.cell.result())

    def _open_next(self, problem: Problem) -> Cell:
        """The process that was boxed ahead, if it is for this problem and alive, or another; with its GPU context."""
        known, self._boxed = self._boxed, None
        if known is not None:
            if known[0] == _key(problem) and "running" in self._server.status(known[1].pid):
                return self._started(known[1])
            self._end(known[1])
        return self._started(self._boxed_empty(problem))

    def _box_ahead(self, problem: Problem) -> None:
        """Failing is no harm: whoever needs it boxes one, and tells why that fails."""
        if self._boxed is None and not self._stopped:
            with suppress(InfraError, OSError):
                self._boxed = _key(problem), self._boxed_empty(problem)

    def _boxed_empty(self, problem: Problem) -> Cell:
        folder = self._plan.work_dir / "boxes" / uuid4().hex
        folder.mkdir(parents=True)
        try:
            return self._box(problem, folder)
        except BaseException:
            scratch_folder.remove(folder)  # also where there was no process yet to take it along
            raise

    def _box(self, problem: Problem, folder: Path) -> Cell:
        """Starts a process in its box."""
        plan = self._plan
        box = {
            "scratch": str(self._compiler.shown_at or folder),
            "origin": str(folder),
            "hidden": [str(plan.work_dir)],
            "masked": [problem.path],
            "user": next_user(),
            "namespaces": plan.namespaces,
        }
        return Cell(self._server, Spawn("candidate", plan.params, box, plan.max_memory_bytes), _EVALUATE_S)

    def _started(self, cell: Cell) -> Cell:
        """Waits until a process has its GPU context; one that gets none is ended."""
        with ExitStack() as undo:
            undo.callback(self._end, cell)
            with self._quiet:
                cell.open_context()
            undo.pop_all()
        return cell

    def _end(self, cell: Cell) -> None:
        """What it left running on the GPU must not slow whoever is timed next."""
        try:
            with self._quiet:
                cell.end()
        finally:
            cell.__exit__()


def _key(problem: Problem) -> _Key:
    """A problem's content, its path and the file that lies there: the box hides that one, and no other in its place.

    Editors and git put a new file there, which a box that waits since before would show. Taken before boxing.
    """
    try:
        facts = Path(problem.path).stat()
    except OSError:
        return problem.id, problem.path
    return problem.id, problem.path, facts.st_dev, facts.st_ino, facts.st_ctime_ns
