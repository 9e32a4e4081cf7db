"""The command line as a person or a program meets it: exit codes, what goes where, interruption."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from scripted.collaborators import SOURCE, kernel
from scripted.recordings import record_run

from warpsmith.graph.cli import main, one_line, with_resume_value
from warpsmith.graph.commands.options import RunOptions
from warpsmith.state.errors import InvalidInput, InvalidProblem

WINNER = kernel("cuda", 64, stages=4)


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def warpsmith(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """Runs the command line in this process (a new one takes a second to start), in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return Ran(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return record_run(tmp_path_factory.mktemp("recorded"))


def test_optimize_tells_json_lines_on_stdout_and_words_on_stderr(warpsmith, recorded, tmp_path):
    problem, recording = recorded
    done = warpsmith("optimize", problem, "--replay", recording)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["event"] == "finished"
    assert events[-1]["winner"] == WINNER.id
    assert re.search(r"scripted_problem: cuda kernel, 2\.55x over the best baseline", done.stderr)
    run_dir = tmp_path / events[-1]["run_dir"]
    assert {"best.py", "report.json", "report.html", "events.jsonl"} <= {path.name for path in run_dir.iterdir()}
    assert run_dir.parent == tmp_path / "runs" / "scripted_problem"


def test_options_become_settings(warpsmith, tmp_path):
    problem, recording = record_run(tmp_path / "made", languages="triton", budget=6, seed=3)
    options = ["--replay", recording, "--languages", "triton", "--budget", "6", "--seed", "3", "--out", "elsewhere"]
    done = warpsmith("optimize", problem, *options)
    assert done.returncode == 0, done.stderr
    (report,) = (tmp_path / "elsewhere").glob("*/*/report.json")
    settings = json.loads(report.read_text())["settings"]
    assert (settings["languages"], settings["budget"], settings["seed"]) == ("triton", 6, 3)


def test_bad_input_is_one_line_on_stderr_and_exit_2(warpsmith, recorded, tmp_path):
    problem, recording = recorded
    (tmp_path / "unknown.py").write_text(SOURCE + "# other\n")
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "problem.py").write_text(SOURCE)
    (tmp_path / "other.jsonl").write_text('{"kind": "notes"}\n')
    for arguments, named in (
        (["optimize", "missing.py"], "missing.py: no such file"),
        (["optimize", "unknown.py", "--replay", recording], "unknown.py: not in the recording"),
        (["optimize", problem, "--replay", "none.jsonl"], "none.jsonl: no such recording"),
        (["optimize", problem, "--replay", "other.jsonl"], "other.jsonl: line 1"),
        (["optimize", problem, "--replay", recording, "--budget", "0"], "setting budget"),
        (["optimize", problem, "--replay", recording, "--out", "file"], "file"),
        (["optimize", problem, "--dry-run", "--require-gpu"], "exclude each other"),
        (["optimize", problem, "--replay", recording, "--resume"], "no run to resume"),
        (["batch", "nowhere", "--replay", recording], "nowhere: no such folder"),
        (
            ["batch", "folder", "--replay", recording, "--strategy", "best"],
            "setting strategy: no 'best'; known: phased",
        ),
        (["batch", "folder", "--replay", recording, "--writer", "llm"], "--writer llm needs a model"),
        (["optimize", problem, "--replay", recording, "--stage", "last"], "setting stage: must be 'one-shot'"),
        (["optimize", problem, "--replay", recording, "--arch", "hopper"], "setting arch: write it as"),
        (["optimize", problem, "--replay", recording, "--library", "folder"], "folder: is a folder"),
        (["optimize", problem, "--replay", recording, "--library", problem], "is not a library"),
        (["optimize", problem, "--replay", recording, "--base-url", "http://127.0.0.1:9"], "nothing without a model"),
        (["optimize", problem, "--replay", recording, "--tokens", "1000"], "--tokens does nothing without a model"),
        (["optimize", problem, "--replay", recording, "--money", "1"], "--money does nothing without a model"),
        (["optimize", problem, "--replay", recording, "--kernel", "k.py"], "--kernel answers a run that waits"),
        (["optimize", problem, "--replay", recording, "--resume", "gone"], "gone: is not a run directory"),
        (["optimize", "folder", "--replay", recording], "folder: is a folder"),
        (["library", "list", "--library", "folder"], "folder: is a folder"),
        (["library", "list"], "no such library"),
        (["failures", "folder", "--kind", "slow"], "--kind slow: give one of"),
        (["failures", "folder"], "folder: no run directory"),
        (["doctor", "--base-url", "http://127.0.0.1:9"], "name a model"),
        (["evaluate", "missing.py", "--problem", problem, "--replay", recording], "missing.py: cannot be read"),
        (["evaluate", problem, "--problem", "missing.py", "--replay", recording], "missing.py: no such file"),
        (["evaluate", problem, "--problem", problem, "--replay", recording, "--tier", "best"], "--tier best: give"),
    ):
        done = warpsmith(*arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert named in done.stderr
        assert done.stderr.startswith("warpsmith: ")
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not [path for path in (tmp_path / "runs").rglob("*") if path.name == "best.py"]


def test_debug_lets_the_error_through(tmp_path):
    with pytest.raises(InvalidProblem, match="missing.py"):
        main(["optimize", str(tmp_path / "missing.py"), "--debug"])


def test_a_second_ctrl_c_while_candidates_are_judged_is_told_as_briefly_as_the_first(recorded, tmp_path):
    problem, recording = recorded
    command = [sys.executable, "-m", "warpsmith", "optimize", str(problem), "--replay", str(recording), "--pace", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "round_opened":
            break
    for _ in range(2):
        time.sleep(0.15)
        process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    first, second = told.splitlines()
    assert first.startswith("interrupted: ")
    assert "go on with: --resume" in second


def test_ctrl_c_while_nothing_is_running_yet_is_one_line(warpsmith, recorded, monkeypatch, tmp_path):
    problem, recording = recorded

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("warpsmith.graph.api.open_services", stop)
    done = warpsmith("optimize", problem, "--replay", recording)
    assert done.returncode == 130
    assert done.stderr.splitlines() == ["interrupted: before anything was tried, so nothing is kept"]
    assert not list((tmp_path / "runs").rglob("checkpoint.sqlite"))
    monkeypatch.setattr("warpsmith.graph.api.make_context", stop)
    assert warpsmith("optimize", problem, "--replay", recording).stderr == "warpsmith: interrupted\n"


def test_a_finished_run_says_what_it_does_not_take_up(warpsmith, recorded):
    problem, recording = recorded
    warpsmith("optimize", problem, "--replay", recording)
    again = warpsmith("optimize", problem, "--resume", "--budget", "40")
    assert again.returncode == 0
    assert "was finished already, without --budget; start a new run" in again.stderr.splitlines()[-1]
    assert "finished already" not in warpsmith("optimize", problem, "--resume").stderr


def test_ctrl_c_exits_130_writes_the_best_and_resume_finishes(warpsmith, recorded, tmp_path):
    problem, recording = recorded
    command = [sys.executable, "-m", "warpsmith", "optimize", str(problem), "--replay", str(recording), "--pace", "0.4"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "best":
            break
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "interrupted: best so far in" in told
    (run_dir,) = (tmp_path / "runs" / "scripted_problem").iterdir()
    assert (run_dir / "best.py").is_file()
    assert json.loads((run_dir / "report.json").read_text())["complete"] is False

    done = warpsmith("optimize", problem, "--resume", "--pace", "0")
    assert done.returncode == 0, done.stderr
    assert json.loads((run_dir / "report.json").read_text())["best"] == WINNER.id


def test_an_output_folder_that_cannot_be_written_is_refused(warpsmith, recorded, tmp_path):
    if os.geteuid() == 0:
        target = Path("/proc/warpsmith-runs")  # Even root cannot write here.
    else:
        target = tmp_path / "locked"
        target.mkdir(mode=0o500)
    problem, recording = recorded
    done = warpsmith("optimize", problem, "--replay", recording, "--out", target)
    assert done.returncode == 2
    assert "choose another with --out" in done.stderr


def test_batch_exits_1_where_one_failed_and_prints_the_closing_table(warpsmith, recorded, tmp_path):
    problem, recording = recorded
    folder = tmp_path / "problems"
    folder.mkdir()
    (folder / "good.py").write_text(problem.read_text())
    (folder / "bad.py").write_text("nothing here\n")
    done = warpsmith("batch", folder, "--replay", recording)
    assert done.returncode == 1
    table = done.stderr.splitlines()
    assert any(re.fullmatch(r"best +0\.50 +0\.50 +0\.50", line) for line in table), table
    assert "failed: 1 InfraError" in table
    rows = [json.loads(line) for line in (tmp_path / "runs" / "results.jsonl").read_text().splitlines()]
    assert [row["ok"] for row in rows] == [False, True]


def test_evaluate_judges_one_file(warpsmith, recorded, tmp_path):
    problem, recording = recorded
    (tmp_path / "kernel.py").write_text(WINNER.source)
    done = warpsmith("evaluate", "kernel.py", "--problem", problem, "--replay", recording, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "passed"
    told = warpsmith("evaluate", "kernel.py", "--problem", problem, "--replay", recording)
    assert told.stdout.startswith("passed")
    (tmp_path / "wrong.py").write_text(kernel("triton", 256, fate="wrong").source)
    options = ["--problem", problem, "--replay", recording, "--tier", "quick"]
    wrong = warpsmith("evaluate", "wrong.py", *options)
    assert wrong.returncode == 1
    assert "incorrect_numerical: off by one in row 3" in wrong.stdout


def test_usage_errors_exit_2(warpsmith):
    for arguments, named in (
        (["optimize"], "Missing argument"),
        (["optimize", "x.py", "--budget", "many"], "'--budget'"),
        (["optimize", "x.py", "--budgets", "3"], "No such option"),
        (["improve"], "No such command"),
        (["library", "burn"], "No such command"),
    ):
        done = warpsmith(*arguments)
        assert done.returncode == 2
        assert named in done.stderr
        assert "--help` shows what it takes" in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert warpsmith("--help").returncode == 0
    assert warpsmith().returncode == 2


@pytest.mark.parametrize("command", ["optimize", "batch"])
def test_help_tells_every_run_option_with_its_default(warpsmith, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "300")
    told = warpsmith(command, "--help").stdout
    assert {f"--{name.replace('_', '-')}" for name in RunOptions.__annotations__} <= set(told.split())
    assert "(default: both)" in told


def test_a_bare_resume_means_the_latest_run(tmp_path):
    run = str(tmp_path)
    assert with_resume_value(["optimize", "p.py", "--resume"]) == ["optimize", "p.py", "--resume", "latest"]
    assert with_resume_value(["optimize", "--resume", "p.py"]) == ["optimize", "--resume", "latest", "p.py"]
    assert with_resume_value(["optimize", "p.py", "--resume", run]) == ["optimize", "p.py", "--resume", run]
    assert with_resume_value(["optimize", "p.py", "--resume", "latest"]) == ["optimize", "p.py", "--resume", "latest"]
    assert with_resume_value(["optimize", "p.py", "--resume", "gone"]) == ["optimize", "p.py", "--resume", "gone"]


def test_errors_become_one_line():
    assert one_line(InvalidInput("a\n b")) == "a b"
    assert one_line(OSError(28, "No space left on device", "runs/x")).startswith(
        "runs/x: No space left on device; free"
    )
    assert one_line(ValueError("odd")) == "ValueError: odd"


def test_the_command_line_starts_within_a_second_and_a_half_and_without_torch(tmp_path):
    """Processor time, since other work on the machine must not fail the test."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import warpsmith.graph\nfrom warpsmith.graph.cli import main\nmain(['--help'])"
    loaded = run_and_list_modules(code, tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5
    assert "typer" in loaded
    assert not {"torch", "triton", "cupy", "langgraph"} & loaded


def test_the_controller_brings_no_torch_into_the_process(tmp_path):
    loaded = run_and_list_modules("import warpsmith.graph as g\ng.build_graph, g.optimize, g.optimize_batch", tmp_path)
    assert "langgraph" in loaded
    assert not {"torch", "triton", "cupy", "langchain_openai"} & loaded


def run_and_list_modules(code: str, cwd: Path) -> set[str]:
    program = f"import atexit, sys\natexit.register(lambda: print('\\nMODULES', *sys.modules))\n{code}\n"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    listed = [line for line in done.stdout.splitlines() if line.startswith("MODULES")]
    assert listed, done.stderr
    return set(listed[0].split()[1:])
