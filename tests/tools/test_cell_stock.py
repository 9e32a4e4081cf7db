"""Cells ready ahead: every candidate gets a process of its own, whatever became of the one that waited."""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from warpsmith.state.candidate import Candidate, make_candidate
from warpsmith.state.errors import InfraError
from warpsmith.state.evaluation import CompileReport
from warpsmith.state.problem import Problem, Workload
from warpsmith.tools.cell import Cell
from warpsmith.tools.cell_stock import CellPlan, CellStock, _Waiting
from warpsmith.tools.compile_pool import Compiled, CompilePool
from warpsmith.tools.device_sheets import target_sheet
from warpsmith.tools.fork_server import ForkServer
from warpsmith.tools.worker.session import CandidateFailed, Session

NOTHING = Compiled(report=CompileReport(ok=True, seconds=0.0))


@pytest.fixture
def stock(server: ForkServer, namespaces: None) -> Iterator[CellStock]:
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-stock-"))
    folder.chmod(0o755)
    compiler = CompilePool(server, folder, target_sheet("sm_90", {}), workers=1)
    compiler.shown_at = folder / "boxes" / "shown"
    made = CellStock(
        server, compiler, CellPlan(work_dir=folder, params={"device": "cpu"}, own_user=True), threading.RLock()
    )
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


def problem(source: str = "a", path: str = "p.py") -> Problem:
    return Problem(name="p", path=path, source=source, workloads=(Workload(name="default", inputs=({},)),))


def candidate(mark: str) -> Candidate:
    """One that leaves a file, and tells what it finds in its folder before."""
    return make_candidate(
        f"from pathlib import Path\nfound = sorted(p.name for p in Path('.').iterdir())\n"
        f"Path({mark!r}).write_text('')\nraise RuntimeError(repr((found, str(Path.cwd()))))\n"
    )


def what_it_said(stock: CellStock, cell: Cell) -> str:
    session = Session(stock._server, cell.pid, cell.channel, cell.notes)
    with pytest.raises(CandidateFailed) as caught:
        session.ask("load", 30.0, path=str(stock._compiler.shown_at / "candidate.py"))  # type: ignore[operator]
    return caught.value.message


def waiting(stock: CellStock) -> Cell:
    assert stock._next is not None
    return stock._next.cell.result()


def test_each_candidate_has_a_process_and_a_folder_of_its_own_at_one_path(stock):
    said = []
    pids = []
    for mark in ("one", "two"):
        with stock.cell(problem(), candidate(mark), NOTHING) as cell:
            pids.append(cell.pid)
            said.append(what_it_said(stock, cell))
    assert pids[0] != pids[1]
    assert all("candidate.py" in text for text in said)
    assert "'one'" not in said[1]
    assert all(str(stock._compiler.shown_at) in text for text in said)


def test_the_next_process_waits_while_a_candidate_is_judged(stock):
    with stock.cell(problem(), candidate("one"), NOTHING):
        ready = waiting(stock)
    with stock.cell(problem(), candidate("two"), NOTHING) as cell:
        assert cell.pid == ready.pid


def boxed_ahead(stock: CellStock) -> Cell:
    stock._opener.submit(lambda: None).result()
    assert stock._boxed is not None
    return stock._boxed[1]


def test_the_one_after_the_next_is_boxed_and_touches_no_gpu(stock):
    with stock.cell(problem(), candidate("one"), NOTHING):
        ahead = boxed_ahead(stock)
        ahead.channel.settimeout(0.3)
        with pytest.raises(TimeoutError):
            ahead.channel.recv(1)  # it says that it is ready once it was told to open its context
        ahead.channel.settimeout(None)
    with stock.cell(problem(), candidate("two"), NOTHING):
        assert waiting(stock).pid == ahead.pid


@pytest.mark.parametrize("another", [None, problem("b")])
def test_one_that_was_boxed_ahead_and_died_or_is_for_another_problem_is_not_used(stock, another):
    with stock.cell(problem(), candidate("one"), NOTHING):
        ahead = boxed_ahead(stock)
        if another is None:
            stock._server.kill(ahead.pid)
    with stock.cell(another or problem(), candidate("two"), NOTHING):
        assert waiting(stock).pid != ahead.pid
    assert not ahead.folder.exists()


def test_a_waiting_process_that_died_is_nobodys_fault(stock):
    """What the machine does to an empty process must not look like what a candidate did."""
    with stock.cell(problem(), candidate("one"), NOTHING):
        dead = waiting(stock)
        stock._server.kill(dead.pid)
    with stock.cell(problem(), candidate("two"), NOTHING) as cell:
        assert cell.pid != dead.pid
        assert "candidate.py" in what_it_said(stock, cell)
    assert not dead.folder.exists()


@pytest.mark.parametrize("another", [problem("b"), problem(path="copy.py")])
def test_a_process_for_another_problem_is_not_used(stock, another):
    """The box hides the file of the problem that it was made for, and no copy of it."""
    with stock.cell(problem(), candidate("one"), NOTHING):
        other = waiting(stock)
    with stock.cell(another, candidate("one"), NOTHING) as cell:
        assert cell.pid != other.pid
    assert "running" not in stock._server.status(other.pid)


def test_a_process_that_hides_a_file_that_was_replaced_is_not_used(stock, tmp_path):
    """As editors save: what is mounted over a file goes with it, and the process would see the new one."""
    file = tmp_path / "p.py"
    file.write_text("a")
    its = problem(path=str(file))
    with stock.cell(its, candidate("one"), NOTHING):
        old = {waiting(stock).pid, boxed_ahead(stock).pid}
    (tmp_path / "new").write_text("b")
    (tmp_path / "new").replace(file)
    for _ in range(2):
        with stock.cell(its, candidate("two"), NOTHING) as cell:
            assert cell.pid not in old


@pytest.mark.parametrize("why", [InfraError("a sandboxed process does not start: no memory"), OSError("no space")])
def test_a_process_that_did_not_start_is_started_anew(stock, why):
    failed: Future[Cell] = Future()
    failed.set_exception(why)
    stock._next = _Waiting((problem().id, problem().path), failed)
    with stock.cell(problem(), candidate("one"), NOTHING) as cell:
        assert "candidate.py" in what_it_said(stock, cell)


def test_closing_leaves_no_process_and_no_folder(stock):
    with stock.cell(problem(), candidate("one"), NOTHING) as cell:
        ready = waiting(stock)
    stock.close()
    assert all("running" not in stock._server.status(each.pid) for each in (cell, ready))
    assert not cell.folder.exists()
    assert not ready.folder.exists()


def test_nothing_of_a_candidate_runs_after_its_turn(stock):
    """It would take what all boxes share from whoever is judged next."""
    with stock.cell(problem(), candidate("one"), NOTHING) as cell:
        with stock.turn(cell):
            assert "running" in stock._server.status(cell.pid)
        assert "running" not in stock._server.status(cell.pid)


def test_a_process_that_died_before_its_turn_is_nobodys_fault(stock):
    with stock.cell(problem(), candidate("one"), NOTHING) as cell:
        stock._server.kill(cell.pid)
        with pytest.raises(InfraError, match="while it waited"), stock.turn(cell):
            pytest.fail("it has no turn")


def test_what_waited_through_a_fault_is_not_used(stock):
    with stock.cell(problem(), candidate("one"), NOTHING):
        stale = waiting(stock)
        stock.discard()
    with stock.cell(problem(), candidate("two"), NOTHING) as cell:
        assert cell.pid != stale.pid
    assert not stale.folder.exists()


def test_closing_in_the_middle_starts_and_leaves_nothing(stock):
    with stock.cell(problem(), candidate("one"), NOTHING) as cell:
        stock.close()
    with pytest.raises(InfraError, match="closed"), stock.cell(problem(), candidate("two"), NOTHING):
        pytest.fail("it is closed")
    assert "running" not in stock._server.status(cell.pid)
    assert list((stock._plan.work_dir / "boxes").iterdir()) == []


def test_a_process_that_cannot_be_started_leaves_no_folder(stock, monkeypatch):
    def refused(_: object) -> None:
        raise InfraError("the fork server cannot start a process")

    with monkeypatch.context() as patch:
        patch.setattr(stock._server, "spawn", refused)
        with pytest.raises(InfraError), stock.cell(problem(), candidate("one"), NOTHING):
            pytest.fail("there is none")
    assert list((stock._plan.work_dir / "boxes").iterdir()) == []
