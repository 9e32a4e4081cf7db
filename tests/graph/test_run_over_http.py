"""Whole runs with a model behind HTTP: faults on the way, budgets, and processes that are killed for real."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripted.answers import REFERENCE, kernel_source
from scripted.collaborators import ScriptedHarness, ScriptedPlanner
from scripted.killed_run import NoSeeds
from scripted_server.server import KEY, ScriptedServer, Step, counting, fail, say

from warpsmith.graph import optimize
from warpsmith.graph.services import Collaborators
from warpsmith.sub_agents.models.budget import Ledger
from warpsmith.sub_agents.models.protocol import Usage
from warpsmith.sub_agents.models.store import AnswerStore, RecordedModel
from warpsmith.sub_agents.models.team import ANSWERS_FILE

TESTS = Path(__file__).resolve().parent.parent
PLAN = json.dumps({"strategies": [{"name": "scan", "expected_speedup": 2, "why": "one pass"}]})


def set_key(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("OPENAI_API_KEY", KEY)
    for name in ("OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        patch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def key(monkeypatch):
    set_key(monkeypatch)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    """A problem, what a run on it that nothing ends prints, and how often it asked."""
    folder = tmp_path_factory.mktemp("whole")
    file = folder / "running_sum.py"
    file.write_text(REFERENCE)
    with pytest.MonkeyPatch.context() as patch, ScriptedServer(written) as server:
        set_key(patch)
        printed = finished("start", str(file), str(folder / "runs"), server.url)
    assert "verified" in printed
    assert printed.count(",") >= 3, "at least four kernels were tried"
    return file, printed, len(server.requests)


@pytest.fixture
def problem_file(tmp_path: Path) -> Path:
    file = tmp_path / "running_sum.py"
    file.write_text(REFERENCE)
    return file


def written(body) -> Step:
    """A plan, or a kernel that follows from the request alone: who asks again is told the same."""
    if "response_format" in body:
        return counting(body, PLAN)
    number = int(hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest(), 16)
    source = kernel_source(16 + number % 997)
    return counting(body, f"One pass.\n```python\n{source}```\n")


def collaborators(**fields) -> Collaborators:
    writers = {"triton": NoSeeds(), "cuda": NoSeeds()}
    return Collaborators(harness=ScriptedHarness(), planner=ScriptedPlanner(), writers=writers, **fields)


def run(problem_file: Path, server: ScriptedServer, **settings):
    out = str(problem_file.parent / "runs")
    settings = {"out": out, "languages": "triton", "budget": 4, "width": 1, **settings}
    return optimize(problem_file, given=collaborators(), model="scripted", base_url=server.url, **settings)


FAULTS = {
    "null_content": say(None),
    "refusal": say(None, refusal="no"),
    "cut": say("```python\nimport torch\n", "length"),
    "prose": say("I would use shared memory."),
    "reference_handed_in": say(f"```python\n{REFERENCE}```"),
    "thinking_only": say("<think>" + kernel_source(64)),
    "lone_surrogate": say("\ud83d"),
    "busy_once": fail(429, "rate_limit_exceeded", headers={"Retry-After": "0"}),
    "garbage_once": Step(body="<html>", headers={"Retry-After": "0"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_every_second_answer_leaves_a_verified_kernel(fault, problem_file, monkeypatch):
    monkeypatch.setattr("warpsmith.sub_agents.models.endpoint.pause_seconds", lambda *_: 0.0)
    with ScriptedServer(lambda body: FAULTS[fault] if len(server.requests) % 2 == 0 else written(body)) as server:
        result = run(problem_file, server)
    assert result.outcome == "verified"
    assert result.models.tokens > 0


def test_a_model_that_only_talks_nonsense_ends_the_run_without_a_kernel(problem_file):
    with ScriptedServer([say("What a fine day.")]) as server:
        result = run(problem_file, server)
    assert result.outcome == "nothing"
    assert len(server.requests) < 60


def test_an_exhausted_quota_ends_the_search_at_once_and_keeps_the_best(problem_file):
    def script(body):
        return written(body) if len(server.requests) <= 3 else fail(429, "insufficient_quota")

    with ScriptedServer(script) as server:
        result = run(problem_file, server, budget=8)
    assert (result.outcome, result.stop_reason) == ("verified", "quota_exhausted")
    assert len(server.requests) == 4


@pytest.mark.parametrize("tokens", [15_000, 40_000])
def test_a_run_s_tokens_as_the_server_counts_them_stay_within_its_budget(tokens, problem_file):
    used = []

    def script(body):
        step = written(body)
        used.append(sum(step.body["usage"][name] for name in ("prompt_tokens", "completion_tokens")))
        return step

    with ScriptedServer(script) as server:
        result = run(problem_file, server, budget=60, tokens=tokens, patience=50)
    assert result.stop_reason == "budget_tokens"
    assert tokens * 0.6 <= sum(used) <= tokens * 1.02
    assert result.models.tokens == sum(used)
    assert sum(role.prompt_tokens + role.completion_tokens for role in result.models.roles) == sum(used)


def test_a_recorded_run_is_replayed_end_to_end_without_its_endpoint(problem_file):
    with ScriptedServer(lambda body: FAULTS["prose"] if len(server.requests) % 3 == 0 else written(body)) as server:
        first = run(problem_file, server)
        asked = len(server.requests)
        record = RecordedModel(AnswerStore(Path(first.run_dir) / ANSWERS_FILE), None, Ledger(), lambda _: (Usage(), ""))
        replayed = optimize(
            problem_file,
            given=collaborators(model=record),
            out=str(problem_file.parent / "replayed"),
            languages="triton",
            budget=4,
            width=1,
        )
    assert len(server.requests) == asked
    assert [entry.id for entry in replayed.trajectory] == [entry.id for entry in first.trajectory]
    assert (replayed.best, replayed.outcome, replayed.models.tokens) == (first.best, "verified", first.models.tokens)


def test_no_key_enters_a_run_directory_not_even_one_that_the_endpoint_repeats(problem_file, monkeypatch):
    monkeypatch.setattr("warpsmith.sub_agents.models.endpoint.pause_seconds", lambda *_: 0.0)
    repeats = fail(500, message=f"nothing is known of {KEY}")
    with ScriptedServer(lambda body: repeats if len(server.requests) % 2 == 0 else written(body)) as server:
        result = run(problem_file, server)
    assert result.outcome == "verified"
    assert all(KEY in str(headers) for headers in server.headers), "the endpoint was given the key"
    files = [file for file in Path(result.run_dir).rglob("*") if file.is_file()]
    assert ANSWERS_FILE in [file.name for file in files]
    assert [file for file in files if KEY.encode() in file.read_bytes()] == []


def spoken(run_dir: Path) -> list[tuple[str, str]]:
    return [(entry.key, entry.outcome) for entry in AnswerStore(run_dir / ANSWERS_FILE).entries()]


def finished(*arguments: str) -> str:
    command = [sys.executable, "-m", "scripted.killed_run", *arguments]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended_when(ready, by: signal.Signals, *arguments: str) -> None:
    """Starts a run and sends it a signal as soon as `ready()` holds; it must end soon after."""
    command = [sys.executable, "-m", "scripted.killed_run", *arguments]
    process = subprocess.Popen(command, cwd=TESTS, stdout=subprocess.DEVNULL, env=dict(os.environ))
    deadline = time.monotonic() + 90
    while not ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ready()
    process.send_signal(by)
    process.wait(20)


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_ended_in_a_model_call_a_run_resumes_to_the_same_result(by, whole, tmp_path):
    problem_file, printed, asked_in_whole = whole
    hung = []

    def script(body):
        step = written(body)
        if len(server.requests) == 3 and not hung:
            hung.append(body)
            return say("never heard", delay_s=60)
        return step

    with ScriptedServer(script) as server:
        ended_when(lambda: bool(hung), by, "start", str(problem_file), str(tmp_path / "cut"), server.url)
        (run_dir,) = (tmp_path / "cut" / "running_sum").iterdir()
        rest = finished("resume", str(run_dir), "-", server.url)
    assert rest == printed
    assert len(server.requests) == asked_in_whole + 1
    outcomes = [outcome for _, outcome in spoken(run_dir)]
    assert outcomes.count("abandoned") == 1
    assert len({key for key, outcome in spoken(run_dir) if outcome == "answered"}) == outcomes.count("answered")


@pytest.mark.slow
def test_killed_in_an_evaluation_a_run_resumes_to_the_same_result_and_asks_nothing_again(whole, tmp_path):
    problem_file, printed, asked_in_whole = whole
    mark = tmp_path / "hung"
    with ScriptedServer(written) as server:
        ended_when(
            mark.exists, signal.SIGKILL, "start", str(problem_file), str(tmp_path / "cut"), server.url, str(mark)
        )
        (run_dir,) = (tmp_path / "cut" / "running_sum").iterdir()
        rest = finished("resume", str(run_dir), "-", server.url)
    assert rest == printed
    assert len(server.requests) == asked_in_whole
    assert {outcome for _, outcome in spoken(run_dir)} == {"answered"}
