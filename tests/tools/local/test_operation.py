"""How a harness works: once a candidate, several threads, bounded, and gone when it ends."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from candidates.softmax import CLASS, FORWARD, HEAD, RIGHT, SCALED_SOFTMAX, TRITON, verdict
from scripted.verdicts import passed

from warpsmith.state.candidate import make_candidate
from warpsmith.state.errors import InfraError, InvalidInput, InvalidProblem
from warpsmith.state.evaluation import Status
from warpsmith.state.problem import Problem
from warpsmith.tools.judge_handle import JudgeHandle
from warpsmith.tools.local import HarnessSettings, LocalHarness

LINEAR = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 8)
        self.scale = torch.randn(())  # no part of the state: a candidate makes it from the judge's seed

    def forward(self, x):
        return self.linear(x) * self.scale


def get_inputs():
    return [torch.randn(32, 16)]


def get_init_inputs():
    return []
"""


def test_an_identical_candidate_is_evaluated_once(harness: LocalHarness, softmax: Problem) -> None:
    first = verdict(harness, softmax, CLASS.format(forward=RIGHT + "  # a comment"))
    started = time.monotonic()
    assert verdict(harness, softmax, CLASS.format(forward=RIGHT + "   # another")) == first
    assert time.monotonic() - started < 0.1


def test_a_time_that_is_voided_later_costs_others_nothing() -> None:
    raced: Any = object.__new__(LocalHarness)
    raced.settings, raced._passed_ms = HarnessSettings(racing=True), {}
    problem: Any = SimpleNamespace(id="p")
    assert raced._give_up_ms(problem) is None
    raced._race(passed("honest", ms=1.0))
    raced._race(passed("forged", ms=0.1))
    assert raced._give_up_ms(problem) == pytest.approx(0.2)
    raced._race(passed("forged", ms=0.1).model_copy(update={"status": Status.UNVERIFIED, "message": "clocks"}))
    assert raced._give_up_ms(problem) == pytest.approx(2.0)
    raced.settings = HarnessSettings(racing=False)
    assert raced._give_up_ms(problem) is None


ALLOW_TF32 = "torch.backends.cuda.matmul.allow_tf32 = True"


@pytest.mark.parametrize(
    ("policy", "line", "allowed"),
    [
        ("tf32", "", True),
        ("strict-fp32", "", False),
        ("reference", ALLOW_TF32, True),  # PyTorch's default for convolutions
        ("strict-fp32", ALLOW_TF32, False),
    ],
)
def test_a_candidate_runs_under_the_flags_of_the_reference(
    harness: LocalHarness, opened: Callable[[str], Problem], policy: str, line: str, allowed: bool
) -> None:
    """Else the reference as a candidate would not be the reference, and a library call slower than its baseline."""
    problem = opened(f'{LINEAR}\nprecision = "{policy}"\n{line}\n')
    source = f"flags = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)\n{LINEAR}"
    told = source + "class ModelNew(Model):\n    def forward(self, x):\n        raise RuntimeError(f'flags {flags}')\n"
    assert f"flags ({allowed}, {allowed})" in verdict(harness, problem, told).message


def test_flags_that_nobody_can_tell_are_the_problems_fault(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    problem = opened(f'{LINEAR}\ntorch.backends.fp32_precision = "tf32"\n')
    with pytest.raises(InvalidProblem, match="allow_tf32"):
        verdict(harness, problem, f"{LINEAR}\nModelNew = Model\n")


def test_a_renewed_judge_draws_anew(harness: LocalHarness, opened: Callable[[str], Problem]) -> None:
    """The same candidates are judged again: what is right stays so."""
    problem = opened(LINEAR)
    seen = set()
    source = """
class ModelNew(Model):
    def forward(self, x):
        raise RuntimeError(f"drew {float(x.sum()):.6f} {float(self.linear.weight.sum()):.6f}")
"""
    for _ in range(3):
        seen.add(verdict(harness, problem, LINEAR + source).message.splitlines()[0])
        assert verdict(harness, problem, f"{LINEAR}\nModelNew = Model\n").status is Status.UNVERIFIED
        harness.renew(problem)
    assert len(seen) == 3
    assert all("drew" in text for text in seen)


def test_one_candidate_from_two_threads_at_once_gets_one_verdict(harness: LocalHarness, softmax: Problem) -> None:
    candidate = make_candidate(HEAD + TRITON + "\nthreads = 2\n")
    found: list[Any] = []

    def judge() -> None:
        try:
            found.append(harness.evaluate(softmax, candidate).status)
        except Exception as error:  # noqa: BLE001 - the test shows it
            found.append(error)

    threads = [threading.Thread(target=judge) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Status.UNVERIFIED] * 3


def test_a_dry_run_has_a_target_and_times_nothing(harness: LocalHarness, softmax: Problem) -> None:
    assert harness.device().simulated
    assert harness.device().arch == "sm_90"
    baselines = harness.baseline(softmax)
    assert {entry.name for entry in baselines.entries} >= {"eager", "compile"}
    assert all(entry.ms is None and "dry run" in entry.error for entry in baselines.entries)
    assert "no GPU" in harness.profile(softmax, make_candidate("x = 1")).reason


def test_a_reference_is_lowered_with_its_free_dimensions(harness: LocalHarness, softmax: Problem) -> None:
    graph = harness.lower(softmax)
    assert not graph.unsupported
    assert [symbol.hint for symbol in graph.symbols] == [16]
    assert harness.lower(softmax) is graph


def test_compiling_that_does_not_end_is_bounded(
    harness: LocalHarness, softmax: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness.compiler, "_limit_s", 1.5)
    started = time.monotonic()
    report = harness.compile(softmax, make_candidate(HEAD + "while True: pass\n"))
    assert time.monotonic() - started < 20
    assert not report.ok or "not compiled ahead" in report.warnings
    assert "did not end" in report.error + report.warnings


@pytest.mark.slow
def test_a_judge_that_died_meanwhile_is_replaced(harness: LocalHarness, softmax: Problem) -> None:
    assert verdict(harness, softmax, CLASS.format(forward="before = 1; " + RIGHT)).correct
    judge = harness.judges.of(softmax)
    os.kill(judge._pid, signal.SIGKILL)
    harness._server.kill(judge._pid)  # waits until it is gone
    assert verdict(harness, softmax, CLASS.format(forward="after = 1; " + RIGHT)).correct
    assert harness.judges.of(softmax) is not judge


def test_a_problem_is_vetted_once(harness: LocalHarness, softmax: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = JudgeHandle.ask

    def noted(handle: JudgeHandle, op: str, *rest: Any, **fields: Any) -> Any:
        asked.append(op)
        return ask(handle, op, *rest, **fields)

    monkeypatch.setattr(JudgeHandle, "ask", noted)
    harness._vetted.clear()
    assert harness.vet(softmax) == harness.vet(softmax)
    assert asked.count("vet") == 1


def test_a_judge_that_does_not_open_its_problem_is_ended(
    harness: LocalHarness, opened: Callable[[str], Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = opened(FORWARD.format(forward="return x", inputs="torch.randn(5)"))
    gone = problem.model_copy(update={"source": "no python (", "path": problem.path})
    started: list[int] = []
    spawn = harness._server.spawn

    def noted(request: Any) -> Any:
        reply = spawn(request)
        started.append(reply[0])
        return reply

    monkeypatch.setattr(harness._server, "spawn", noted)
    with pytest.raises((InvalidProblem, InfraError)):
        harness.judges.of(gone)
    assert started
    assert "running" not in harness._server.status(started[-1])


@pytest.mark.slow
def test_a_harness_that_cannot_start_leaves_no_folder_and_no_process(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tempfile.tempdir = None
    before = children()
    with pytest.raises(InvalidInput, match="--arch sm_12"):
        LocalHarness(HarnessSettings(dry_run=True, arch="sm_12", start_timeout_s=240.0))
    tempfile.tempdir = None
    assert children() == before
    assert list(tmp_path.iterdir()) == []


def children() -> set[str]:
    tasks = Path("/proc/self/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


@pytest.mark.slow
def test_without_namespaces_candidates_are_judged_all_the_same_and_the_gaps_are_told(tmp_path: Path) -> None:
    settings = HarnessSettings(dry_run=True, namespaces=False, start_timeout_s=240.0)
    harness = LocalHarness(settings)
    try:
        path = tmp_path / "softmax.py"
        path.write_text(HEAD + SCALED_SOFTMAX)
        problem = harness.load(path)
        right = verdict(harness, problem, TRITON)
        assert right.correct, right.message
        assert any("namespaces: switched off" in note for note in right.notes)
        assert verdict(harness, problem, CLASS.format(forward="import os; os.abort()")).status is Status.RUNTIME_ERROR
        assert verdict(harness, problem, CLASS.format(forward=RIGHT)).correct
    finally:
        harness.close()
