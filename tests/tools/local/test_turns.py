"""Candidates judged one after the other: none pays for another, and none holds up the end."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from candidates.softmax import CLASS, HEAD, RIGHT, SCALED_SOFTMAX, verdict

from warpsmith.state.errors import InfraError
from warpsmith.state.evaluation import Status
from warpsmith.state.problem import Problem
from warpsmith.tools.cell import Cell
from warpsmith.tools.judge_handle import JudgeHandle
from warpsmith.tools.local import HarnessSettings, LocalHarness

HOG = CLASS.replace(
    "super().__init__()",
    """super().__init__()
        for _ in range(600 if type(torch.zeros(1)) is torch.Tensor else 0):  # not while it is compiled
            try:
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
            except OSError:
                break""",
)
HONEST = """
import threading
thread = threading.Thread(target=lambda: None)
thread.start()
"""
SLOW = """
import time
made = []
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(n))
        self.calls = 0
        made.append(self)
    def forward(self, x):
        self.calls += 1
        time.sleep(8 if self is made[0] and self.calls > 8 else 0)  # slow only once it is timed
        return torch.softmax(x * self.scale, -1)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the limit on processes counts those of the person who runs this as well")
def test_what_a_candidate_takes_of_what_all_share_is_back_before_the_next(
    harness: LocalHarness, softmax: Problem
) -> None:
    """All the processes that it may have: the next one's thread could not start, and it was blamed. Its turn ends now
    before the next, and each box has a user of its own."""
    bodies = ["import os, time\n" + HOG.format(forward=RIGHT)]
    bodies += [HONEST + CLASS.format(forward=RIGHT) + f"NUMBER = {number}\n" for number in range(2)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda body: verdict(harness, softmax, body), bodies))
    assert [each.status for each in found[1:]] == [Status.UNVERIFIED] * 2, found


def test_a_second_try_takes_no_process_that_waited_through_the_fault(
    harness: LocalHarness, softmax: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU that a judge lost is lost to every process that had opened it."""
    asked: list[int] = []
    waiting: list[int] = []
    ask_about = JudgeHandle.ask_about

    def once_at_fault(handle: JudgeHandle, cell: Cell, *rest: object) -> object:
        asked.append(cell.pid)
        if len(asked) == 1:
            assert harness.cells._next is not None
            waiting.append(harness.cells._next.cell.result().pid)
            raise InfraError("the GPU does not answer after a crash")
        return ask_about(handle, cell, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(JudgeHandle, "ask_about", once_at_fault)
    assert verdict(harness, softmax, CLASS.format(forward="again = 1; " + RIGHT)).status is Status.UNVERIFIED
    assert len(asked) == 2
    assert asked[1] not in waiting


@pytest.mark.slow
def test_closing_waits_for_nothing_that_is_timed_and_leaves_nothing(tmp_path: Path) -> None:
    """A person who stops a run for the second time waits no longer."""
    settings = HarnessSettings(work_dir=tmp_path / "work", dry_run=True, call_limit_s=30.0, start_timeout_s=240.0)
    harness = LocalHarness(settings)
    (tmp_path / "softmax.py").write_text(HEAD + SCALED_SOFTMAX)
    problem = harness.load(tmp_path / "softmax.py")
    raised: list[Exception] = []

    def judged() -> None:
        try:
            verdict(harness, problem, SLOW)
        except InfraError as error:
            raised.append(error)

    thread = threading.Thread(target=judged)
    thread.start()
    timed_since = deadline = time.monotonic()
    while time.monotonic() < timed_since + 2 and time.monotonic() < deadline + 60:
        time.sleep(0.05)
        if harness._quiet.acquire(blocking=False):
            harness._quiet.release()
            timed_since = time.monotonic()
    started = time.monotonic()
    harness.close()
    thread.join(30)
    assert time.monotonic() - started < 10
    assert [str(error) for error in raised] == ["the harness is closed"]
    assert list((tmp_path / "work/boxes").iterdir()) == []
