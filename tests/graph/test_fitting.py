"""Kernels for other sizes than the main workload's, at the end of a search."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph.runtime import Runtime
from programs.examples import softmax
from scripted.by_size import SPEEDUPS, BySize, Writer, kernel
from scripted.collaborators import GPU, ScriptedPlanner, timing

from warpsmith.graph import optimize
from warpsmith.graph.fit import MOST_SIZES, falls_short, plan_at
from warpsmith.graph.nodes.fitting import fit_sizes
from warpsmith.graph.run_directory import RunDirectory
from warpsmith.graph.services import close_services, open_services, provide
from warpsmith.state.brief import Brief
from warpsmith.state.candidate import Candidate
from warpsmith.state.channels import Context, State
from warpsmith.state.evaluation import Check, Evaluation, Status, Tier
from warpsmith.state.plan import Plan, Strategy
from warpsmith.state.problem import Problem, Workload
from warpsmith.state.trajectory import Result
from warpsmith.sub_agents.triton_writer import TritonWriter

LARGE, SMALL = 1 << 20, 1 << 10
PLAN = Plan(
    summary="one kernel",
    strategies=(Strategy(name="tune", expected_speedup=2, why="it is"),),
    forward=softmax("s0", 8, {"s0": (0, 0, LARGE)}),
)


class Planner(ScriptedPlanner):
    def plan(self, *_: Any) -> Plan:
        return PLAN


@dataclass
class GivesUp(BySize):
    """Does not time what is far behind on the large workload to its end, unless it is to be thorough."""

    def _verdict(self, problem: Problem, candidate: Candidate, tier: Tier) -> Evaluation:
        found = super()._verdict(problem, candidate, tier)
        if tier != "quick" or not found.timings or found.timings[0].speedup >= 1:
            return found
        return found.model_copy(update={"status": Status.UNVERIFIED, "message": "far behind", "timings": ()})


def run(problem_file: Path, tmp_path: Path, given: Any, writer: Writer, **more: Any) -> Result:
    harness = more.pop("harness", None) or GivesUp()
    collaborators = given(harness=harness, writers={"triton": writer}, planner=Planner())
    return optimize(problem_file, given=collaborators, out=str(tmp_path), languages="triton", budget=6, **more)


def fits(writer: Writer) -> list[Brief]:
    return [brief for brief in writer.asked if brief.directive == "fit"]


def test_a_kernel_that_nobody_proposed_for_the_main_size_becomes_one_of_two(problem_file, tmp_path, given) -> None:
    writer = Writer(tiles=(64, 1024), fitting={SMALL: 16})
    result = run(problem_file, tmp_path, given, writer)
    assert [each.speedup for each in result.timings] == [SPEEDUPS[1024][0], SPEEDUPS[16][1]]
    assert [entry.asked for entry in result.trajectory[-2:]] == ["fit odd", "combine"]
    assert result.tried == 4


def test_one_that_was_given_up_on_the_main_size_is_timed_on_the_other(problem_file, tmp_path, given) -> None:
    writer = Writer(tiles=(64, 16, 1024), fitting={SMALL: 16})
    result = run(problem_file, tmp_path, given, writer)
    assert [each.speedup for each in result.timings] == [SPEEDUPS[1024][0], SPEEDUPS[16][1]]
    (entry,) = [entry for entry in result.trajectory if entry.id == kernel(16).id]
    assert entry.status is Status.PASSED  # One row, of its later and more thorough verdict.
    assert result.tried == 4


def test_one_that_was_timed_on_that_size_is_not_proposed_again(problem_file, tmp_path, given) -> None:
    writer = Writer(tiles=(64, 1024), fitting={SMALL: 1024})
    run(problem_file, tmp_path, given, writer)
    (brief,) = fits(writer)
    assert brief.tried == {kernel(64).id, kernel(1024).id}


@pytest.mark.parametrize("more", [{"stage": "search"}, {"harness": GivesUp(dry=True)}, {"fits": 0}])
def test_it_is_not_asked_for_without_need(problem_file, tmp_path, given, more) -> None:
    writer = Writer(tiles=(64, 1024), fitting={SMALL: 16})
    run(problem_file, tmp_path, given, writer, **more)
    assert fits(writer) == []


def test_a_recorded_run_replays_to_the_same(problem_file, tmp_path, given) -> None:
    recording = tmp_path / "recording.jsonl"
    writer = Writer(tiles=(64, 1024), fitting={SMALL: 16})
    made = run(problem_file, tmp_path / "a", given, writer, record=str(recording))
    again = optimize(problem_file, replay=str(recording), out=str(tmp_path / "b"), languages="triton", budget=6)
    assert [entry.id for entry in again.trajectory] == [entry.id for entry in made.trajectory]
    assert again.best == made.best


def test_a_run_that_was_cut_off_meanwhile_comes_to_the_same(problem_file, tmp_path, given) -> None:
    writer = Writer(tiles=(64, 1024), fitting={SMALL: 16})
    whole = run(problem_file, tmp_path, given, writer)
    folder = Path(whole.run_dir)
    context = Context(out=str(tmp_path), languages="triton", budget=6)
    harness = GivesUp()
    provide(open_services(folder, context, given(harness=harness, writers={"triton": writer}, planner=Planner())))
    rows = RunDirectory(folder).rows()
    searched = rows[:2]
    state = State(
        problem=str(problem_file),
        run_dir=whole.run_dir,
        tried=tuple(row.id for row in searched),
        pool=searched,
        best=max(searched, key=lambda row: row.rank).id,
        best_rank=max(row.rank for row in searched),
        stop_reason="nothing_left",
    )
    update = fit_sizes(state, Runtime(context=context))
    assert update["tried"] == (*state.tried, kernel(16).id)
    assert harness.calls == []  # Its verdict lies in the run's directory.
    assert [row.id for row in RunDirectory(folder).rows()] == [row.id for row in rows]
    close_services(whole.run_dir)


def test_the_farthest_from_the_speed_of_light_come_first() -> None:
    speedups = {"default": 0.1, "near": 3.9, "far": 1.0, "farther": 0.5, "farthest": 0.4, "a launch": 300.0}
    problem = Problem(name="p", path="p.py", source="", workloads=tuple(Workload(name=name) for name in speedups))
    best = Evaluation(
        candidate="c",
        problem=problem.id,
        status=Status.PASSED,
        tier="quick",
        checks=(Check(workload="default", draw="normal", passed=True, error_rms=0.0, bound_rms=1.0),),
        timings=tuple(
            timing(name, each).model_copy(update={"sol_ms": 1e-4} if name == "a launch" else {})
            for name, each in speedups.items()
        ),
    )
    assert MOST_SIZES == 2
    assert [each.name for each in falls_short(problem, best)] == ["farthest", "farther"]


def test_a_plan_has_the_sizes_of_the_workload() -> None:
    found = plan_at(PLAN, Workload(name="odd", inputs=({"shape": [77, 8], "dtype": "float32"},)))
    assert found is not None
    assert found.forward is not None
    assert found.forward.hints == {"s0": 77}
    assert found.forward.steps == PLAN.forward.steps  # type: ignore[union-attr]


@pytest.mark.parametrize("inputs", [({"shape": [LARGE, 8]},), (None,), ()])
def test_no_plan_where_no_size_is_another_or_an_input_is_left_out(inputs: tuple[Any, ...]) -> None:
    assert plan_at(PLAN, Workload(name="odd", inputs=inputs)) is None


def test_a_writer_chooses_by_the_sizes_of_the_plan() -> None:
    """Few rows of a million elements leave most processors idle unless several blocks share one."""
    forward = softmax("s0", "s1", {"s0": (0, 0, 16384), "s1": (0, 1, 2048)})
    plan = PLAN.model_copy(update={"forward": forward})
    long_rows = plan_at(plan, Workload(name="long", inputs=({"shape": [4, 1 << 20]},)))
    assert long_rows is not None
    source = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    problem = Problem(name="p", path="p.py", source=source, workloads=(Workload(name="default"),))
    first = [
        TritonWriter()
        .propose(Brief(problem=problem, device=GPU, plan=each, language="triton", directive="fit"), 1)[0]
        .template
        for each in (plan, long_rows)
    ]
    assert first == ["triton_row_persistent", "triton_split_reduction"]


def test_someone_at_the_terminal_is_no_reason_to_leave_other_sizes_out(problem_file, tmp_path, given) -> None:
    """A person is there to answer a writer that asks; only where they write themselves is nobody asked for more."""
    writer = Writer(tiles=(64, 1024), fitting={SMALL: 16})
    collaborators = given(
        harness=GivesUp(), writers={"triton": writer}, planner=Planner(), person=lambda question: "nothing was asked"
    )
    result = optimize(problem_file, given=collaborators, out=str(tmp_path), languages="triton", budget=6)
    assert [entry.asked for entry in result.trajectory[-2:]] == ["fit odd", "combine"]
