"""A person as the writer: the graph stops with the brief and goes on with files."""

import json
from pathlib import Path

import pytest
from scripted.answers import REFERENCE, kernel_source
from scripted.collaborators import ScriptedHarness, ScriptedPlanner, kernel
from scripted.recordings import record_run

from warpsmith.graph import Context, Waiting, build_graph, optimize, resume
from warpsmith.graph.cli import main
from warpsmith.graph.run_directory import new_run_directory
from warpsmith.graph.services import Collaborators, open_services, provide
from warpsmith.state.candidate import normalised_hash
from warpsmith.state.errors import InvalidInput
from warpsmith.sub_agents.human import candidates_in

SETTINGS = {"writer": "human", "languages": "triton", "budget": 4, "width": 2}


@pytest.fixture
def problem_file(tmp_path: Path) -> Path:
    file = tmp_path / "running_sum.py"
    file.write_text(REFERENCE)
    return file


@pytest.fixture
def kernel_file(tmp_path: Path):
    def make(tile: int, fate: str = "") -> Path:
        file = tmp_path / f"kernel{tile}{fate}.py"
        file.write_text("import triton.jit\n" + kernel_source(tile, fate))
        return file

    return make


def given(**fields: object) -> Collaborators:
    return Collaborators(harness=ScriptedHarness(), planner=ScriptedPlanner(), **fields)


def test_a_person_in_the_same_process_is_asked_until_there_are_no_more_kernels(problem_file, tmp_path, kernel_file):
    files = iter([kernel_file(16), [kernel_file(32), kernel_file(64)]])
    asked = []

    def person(question):
        asked.append(question)
        return next(files, None)

    result = optimize(problem_file, given=given(person=person), out=str(tmp_path / "runs"), **SETTINGS)
    assert result.outcome == "verified"
    assert result.best == normalised_hash(kernel_file(64).read_text())
    assert [entry.origin for entry in result.trajectory] == ["human"] * 3
    assert len(asked) == 3  # The third has no answer: nobody is asked again in a later phase.
    assert "## What to write now" in asked[0]["brief"]
    assert Path(asked[0]["brief_file"]).read_text() == asked[0]["brief"]
    assert "0.7812 ms" in asked[1]["brief"]  # What became of the first kernel.


def test_without_anybody_to_ask_the_run_waits_and_is_resumed_with_a_file(problem_file, tmp_path, kernel_file):
    with pytest.raises(Waiting, match=r"go on with: --resume .* --kernel FILE") as waiting:
        optimize(problem_file, given=given(), out=str(tmp_path / "runs"), **SETTINGS)
    run_dir = waiting.value.run_dir
    (question,) = waiting.value.questions.values()
    assert question["language"] == "triton"
    with pytest.raises(Waiting):
        resume(run_dir, given=given(), kernels=[kernel_file(16)])
    with pytest.raises(Waiting) as again:
        resume(run_dir, given=given(), kernels=[kernel_file(64, "wrong")])
    (question,) = again.value.questions.values()
    assert "incorrect_numerical" in question["brief"]
    result = resume(run_dir, given=given(person=lambda question: None))
    assert result.best == normalised_hash(kernel_file(16).read_text())
    assert [entry.status.value for entry in result.trajectory] == ["passed", "incorrect_numerical"]


def test_resuming_without_a_kernel_waits_on(problem_file, tmp_path):
    with pytest.raises(Waiting) as waiting:
        optimize(problem_file, given=given(), out=str(tmp_path / "runs"), **SETTINGS)
    with pytest.raises(Waiting) as again:
        resume(waiting.value.run_dir, given=given())
    assert [*again.value.questions] == [*waiting.value.questions]


def test_a_path_that_cannot_be_read_is_asked_for_again_with_the_fault(problem_file, tmp_path, kernel_file):
    replies = iter([tmp_path / "missing.py", kernel_file(64)])
    faults = []

    def person(question):
        faults.append(question.get("fault", ""))
        return next(replies, None)

    result = optimize(problem_file, given=given(person=person), out=str(tmp_path / "runs"), **SETTINGS)
    assert result.outcome == "verified"
    assert "missing.py: cannot be read" in faults[1]


def test_a_kernel_file_that_is_missing_is_named_before_the_run_goes_on(problem_file, tmp_path):
    with pytest.raises(Waiting) as waiting:
        optimize(problem_file, given=given(), out=str(tmp_path / "runs"), **SETTINGS)
    with pytest.raises(InvalidInput, match=r"nope.py: cannot be read"):
        resume(waiting.value.run_dir, given=given(), kernels=[tmp_path / "nope.py"])


def test_the_command_line_waits_with_exit_status_3_and_goes_on_with_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    problem, recording = record_run(tmp_path / "recorded")
    recorded_winner = kernel("cuda", 64, stages=4)

    def warpsmith(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return int(ended.value.code or 0), *capsys.readouterr()

    started = ("optimize", problem, "--replay", recording, "--writer", "human", "--languages", "triton")
    code, out, err = warpsmith(*started)
    event = json.loads(out.splitlines()[-1])
    assert (code, event["event"]) == (3, "waiting")
    assert "waiting for up to" in err
    file = tmp_path / "mine.py"
    file.write_text(recorded_winner.source)
    code, _, _ = warpsmith("optimize", problem, "--resume", event["run_dir"], "--kernel", file)
    assert code == 3
    code, out, err = warpsmith("optimize", problem, "--resume", event["run_dir"], "--kernel", "done")
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])["winner"] == recorded_winner.id


def test_a_graph_that_another_program_drives_shows_the_question_as_an_interrupt(problem_file, tmp_path):
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    context = Context(out=str(tmp_path / "runs"), **SETTINGS)
    run_dir = new_run_directory(tmp_path / "runs", problem_file)
    provide(open_services(run_dir, context, given()))
    graph = build_graph(InMemorySaver())
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 200}
    stopped = graph.invoke({"problem": str(problem_file), "run_dir": str(run_dir)}, config, context=context)
    (asked,) = stopped["__interrupt__"]
    assert asked.value["language"] == "triton"
    graph.invoke(Command(resume={"source": kernel_source(64)}), config, context=context)
    output = graph.invoke(Command(resume=""), config, context=context)
    assert output["outcome"] == "verified"
    assert output["winner"] == normalised_hash(kernel_source(64))


@pytest.mark.parametrize("nothing", [None, "", "done", [], {}, [None], {"source": ""}])
def test_these_replies_say_that_there_are_no_more(nothing):
    assert candidates_in(nothing, "triton") == []


def test_a_reply_may_be_source_path_or_several(kernel_file):
    path = kernel_file(64)
    for reply in (path, str(path), path.read_text(), {"file": str(path)}, {"source": path.read_text()}):
        (candidate,) = candidates_in(reply, "triton")
        assert candidate.id == normalised_hash(path.read_text())
    assert len(candidates_in({"files": [str(path), str(kernel_file(8))]}, "triton")) == 2


def test_a_reply_of_another_kind_is_refused():
    with pytest.raises(InvalidInput, match="int: give a path or the source"):
        candidates_in(7, "triton")
