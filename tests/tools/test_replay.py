"""Recordings give back what was recorded, and name what was not."""

import json
from pathlib import Path

import pytest
from scripted.collaborators import GPU, SOURCE, ScriptedHarness, ScriptedPlanner, ScriptedWriter, kernel

from warpsmith.state.brief import Brief
from warpsmith.state.errors import InfraError, InvalidInput, InvalidProblem
from warpsmith.state.plan import Plan
from warpsmith.state.problem import Problem
from warpsmith.tools.replay import (
    Recording,
    RecordingHarness,
    RecordingPlanner,
    RecordingWriter,
    ReplayHarness,
    ReplayPlanner,
    ReplayWriter,
)

KERNEL = kernel("triton", 64)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return tmp_path / "recording.jsonl"


def brief_of(problem: Problem, tried: frozenset[str] = frozenset(), rng_seed: int = 0) -> Brief:
    plan = Plan(summary="", strategies=())
    return Brief(
        problem=problem, device=GPU, plan=plan, language="triton", directive="explore", tried=tried, rng_seed=rng_seed
    )


def test_every_answer_of_a_harness_comes_back_equal(file, recording):
    made = RecordingHarness(ScriptedHarness(), recording)
    problem = made.load(file)
    answers = [
        made.device(),
        problem,
        made.vet(problem),
        made.lower(problem),
        made.baseline(problem),
        made.compile(problem, KERNEL),
        made.evaluate(problem, KERNEL),
        made.evaluate(problem, KERNEL, "full"),
        made.profile(problem, KERNEL),
    ]
    again = ReplayHarness(recording)
    assert answers == [
        again.device(),
        again.load(file),
        again.vet(problem),
        again.lower(problem),
        again.baseline(problem),
        again.compile(problem, KERNEL),
        again.evaluate(problem, KERNEL),
        again.evaluate(problem, KERNEL, "full"),
        again.profile(problem, KERNEL),
    ]


def test_a_miss_names_the_candidate_and_the_tier(file, recording):
    made = RecordingHarness(ScriptedHarness(), recording)
    problem = made.load(file)
    made.evaluate(problem, KERNEL, "quick")
    with pytest.raises(InfraError, match=f"no evaluation of {KERNEL.id} full"):
        ReplayHarness(recording).evaluate(problem, KERNEL, "full")
    with pytest.raises(InfraError, match=kernel("cuda", 8).id):
        ReplayHarness(recording).evaluate(problem, kernel("cuda", 8))


def test_a_profile_that_was_not_recorded_is_a_reason_not_an_error(file, recording):
    problem = RecordingHarness(ScriptedHarness(), recording).load(file)
    assert "not in the recording" in ReplayHarness(recording).profile(problem, KERNEL).reason


def test_one_recording_holds_several_problems_known_by_their_source(tmp_path, recording):
    made = RecordingHarness(ScriptedHarness(), recording)
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    for number, path in enumerate(files):
        path.write_text(f"{SOURCE}# {number}\n")
        made.evaluate(made.load(path), KERNEL)
    again = ReplayHarness(recording)
    problems = [again.load(path) for path in files]
    assert problems[0].id != problems[1].id
    assert [again.evaluate(problem, KERNEL).problem for problem in problems] == [problem.id for problem in problems]
    moved = tmp_path / "moved.py"
    moved.write_text(f"{SOURCE}# 1\n")
    assert again.load(moved).id == problems[1].id
    moved.write_text(f"{SOURCE}# 2\n")
    with pytest.raises(InfraError, match="moved.py: not in the recording"):
        again.load(moved)
    with pytest.raises(InvalidProblem, match="gone.py"):
        again.load(tmp_path / "gone.py")


def test_the_first_answer_stays(file, recording):
    book = Recording(recording)
    book.add("notes", "p", (), ["first"])
    book.add("notes", "p", (), ["second"])
    assert Recording(recording).find("notes", "p") == ["first"]
    assert len(recording.read_text().splitlines()) == 1


def test_a_line_that_is_no_part_of_a_recording_is_named(recording):
    recording.write_text('{"kind": "notes", "problem": "", "key": [], "value": 1}\n{"kind": "notes"}')
    with pytest.raises(InvalidInput, match="line 2"):
        ReplayHarness(recording)


def test_a_missing_recording_says_how_to_make_one(recording):
    with pytest.raises(InvalidInput, match="--record"):
        ReplayHarness(recording)


def test_a_writer_repeats_its_answer_to_the_same_request(file, recording):
    problem = ScriptedHarness().load(file)
    made = RecordingWriter(ScriptedWriter("triton"), recording)
    first = made.propose(brief_of(problem, rng_seed=1), 3)
    tried = frozenset(candidate.id for candidate in first)
    second = made.propose(brief_of(problem, tried, rng_seed=2), 3)
    again = ReplayWriter(recording)
    assert again.propose(brief_of(problem, tried, rng_seed=2), 3) == second
    assert again.propose(brief_of(problem, rng_seed=1), 3) == first


def test_a_writer_answers_another_request_with_what_is_left_of_its_kind(file, recording):
    problem = ScriptedHarness().load(file)
    first = RecordingWriter(ScriptedWriter("triton"), recording).propose(brief_of(problem, rng_seed=1), 4)
    left = ReplayWriter(recording).propose(brief_of(problem, frozenset({first[0].id}), rng_seed=9), 2)
    assert left == first[1:3]


def test_a_plan_comes_back(file, recording):
    problem = ScriptedHarness().load(file)
    graph = ScriptedHarness().lower(problem)
    plan = RecordingPlanner(ScriptedPlanner(), recording).plan(problem, graph, GPU)
    assert ReplayPlanner(recording).plan(problem, graph, GPU) == plan


def test_a_recording_is_plain_json_lines(file, recording):
    made = RecordingHarness(ScriptedHarness(), recording)
    made.evaluate(made.load(file), KERNEL)
    kinds = [json.loads(line)["kind"] for line in recording.read_text().splitlines()]
    assert kinds == ["problem", "evaluation"]
