"""The graph end to end on scripted collaborators."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scripted.collaborators import ScriptedHarness, ScriptedWriter, kernel

from warpsmith.graph import optimize
from warpsmith.graph.controller import build_graph, graph, recursion_limit
from warpsmith.graph.run_directory import RunDirectory, new_run_directory
from warpsmith.graph.services import open_services, provide
from warpsmith.state.candidate import make_candidate
from warpsmith.state.channels import Context, State, Update
from warpsmith.state.problem import Target
from warpsmith.state.trajectory import Result

WINNER = kernel("cuda", 64, stages=4)
"""What the scripted rules make the fastest of all candidates."""


def stream_nodes(problem_file: Path, out: Path, collaborators: Any, **settings: Any) -> list[tuple[str, Any]]:
    """Runs the graph and returns (node, update) of every step in order."""
    context = Context(out=str(out), **settings)
    run_dir = new_run_directory(out, problem_file)
    provide(open_services(run_dir, context, collaborators))
    inputs = {"problem": str(problem_file), "run_dir": str(run_dir)}
    config = {"recursion_limit": recursion_limit(context)}
    steps = build_graph().stream(inputs, config, context=context, stream_mode="updates")
    return [entry for step in steps for entry in step.items()]


def evaluated_ids(steps: list[tuple[str, Any]]) -> list[str]:
    """In the order of the trajectory: streamed steps come as branches finish, channels in the order of dispatch."""
    return [update["tried"] for node, update in steps if node == "record"][-1]


def test_a_run_passes_through_every_node_in_the_order_of_the_design(problem_file, tmp_path, given):
    nodes = [node for node, _ in stream_nodes(problem_file, tmp_path, given())]
    assert nodes[:5] == ["load_problem", "vet_problem", "measure_baseline", "plan", "explore"]
    assert nodes[-5:] == ["fit_sizes", "combine", "cross_validate", "final_check", "report"]
    assert set(nodes) == set(graph.get_graph().nodes) - {"__start__", "__end__"}
    loop = [node for node in nodes[4:] if node not in ("evaluate", "profile")][:6]
    assert loop == ["explore", "propose", "schedule", "diagnose", "feedback", "record"]
    phases = list(dict.fromkeys(node for node in nodes if node in ("explore", "rewrite", "tune")))
    assert phases == ["explore", "rewrite", "tune"]


def test_the_fastest_kernel_wins_and_is_verified_on_every_workload(problem_file, tmp_path, given):
    result = optimize(problem_file, given=given(), out=str(tmp_path))
    assert result.best == WINNER.id
    assert result.outcome == "verified"
    assert [timing.workload for timing in result.timings] == ["default", "odd"]
    assert result.speedup == pytest.approx(2.2 * 1.05**3)
    assert result.speedup_over == pytest.approx(
        {"best": result.speedup, "eager": 2 * result.speedup, "compile": result.speedup}
    )
    assert result.best_ms_by_language["cuda"] == pytest.approx(1 / result.speedup)
    assert Path(result.best_path).read_text() == WINNER.source


def test_every_candidate_is_evaluated_once_whoever_proposes_it(problem_file, tmp_path, given):
    class Repeats(ScriptedWriter):
        def propose(self, brief, n):
            return [kernel("triton", 64), kernel("triton", 64), kernel("triton", 32)][:n]

    harness = ScriptedHarness()
    result = optimize(
        problem_file, given=given(harness=harness, writers={"triton": Repeats("triton")}), out=str(tmp_path)
    )
    quick = Counter(id for what, id in harness.calls if what == "quick")
    assert quick[kernel("triton", 32).id] == 1
    assert quick[kernel("triton", 64).id] == 1
    assert ("record", kernel("triton", 64).id) in harness.calls  # The final check is a run of its own.
    assert result.tried == 2


@pytest.mark.parametrize("budget", [1, 2, 5, 9, 30])
def test_the_budget_of_evaluations_is_never_passed(problem_file, tmp_path, given, budget):
    result = optimize(problem_file, given=given(), out=str(tmp_path), budget=budget)
    assert result.tried <= budget
    assert result.outcome == "verified"
    if budget < 10:
        assert (result.tried, result.stop_reason) == (budget, "budget_evaluations")


def test_seconds_end_a_run_and_the_best_so_far_is_still_verified(problem_file, tmp_path, given):
    result = optimize(problem_file, given=given(harness=ScriptedHarness(delay_s=0.05)), out=str(tmp_path), seconds=0.01)
    assert result.stop_reason == "budget_seconds"
    assert result.tried == 4
    assert result.outcome == "verified"


def test_the_speed_of_light_ends_the_search(problem_file, tmp_path, given):
    result = optimize(
        problem_file, given=given(harness=ScriptedHarness(speed=2.0)), out=str(tmp_path), stop_at_sol=0.95
    )
    assert result.stop_reason == "speed_of_light"
    assert result.sol_fraction >= 0.95


@pytest.mark.parametrize(
    ("gpu", "reason", "beaten"), [("Scripted H200", "target_beaten", True), ("B300", "nothing_left", False)]
)
def test_a_target_is_beaten_only_on_its_own_gpu(problem_file, tmp_path, given, gpu, reason, beaten):
    target = Target(ms=0.7, gpu=gpu, workload="default", source="a leaderboard")
    given_harness = given(harness=ScriptedHarness(target=target))
    result = optimize(problem_file, given=given_harness, out=str(tmp_path), budget=30)
    assert result.stop_reason == reason
    assert (result.target.beaten, result.target.comparable) == (beaten, beaten)
    assert result.target.gap < 0


def test_rounds_without_gain_end_a_phase(problem_file, tmp_path, given):
    writers = {"triton": ScriptedWriter("triton", tiles=(64, 32, 16, 8, 4, 2, 128, 256), stages=1)}
    result = optimize(
        problem_file, given=given(writers=writers), out=str(tmp_path), languages="triton", width=1, patience=2
    )
    assert result.stop_reason == "nothing_left"  # Tuning has no stages to try.
    assert result.tried == 3  # The first is the best; two more bring nothing.


def test_candidates_that_fail_are_values_and_never_kept(problem_file, tmp_path, given):
    fates = {64: "compile", 32: "wrong", 128: "wrong"}
    result = optimize(problem_file, given=given(fates=fates), out=str(tmp_path), languages="triton")
    assert result.statuses["compile_error"] == 1
    assert result.statuses["incorrect_numerical"] == 2
    assert RunDirectory(Path(result.run_dir)).candidate(result.best).slots["tile"] in (16, 256)


def test_a_kernel_that_fails_on_another_workload_gives_way_to_the_next_best(problem_file, tmp_path, given):
    result = optimize(problem_file, given=given(fates={64: "full"}), out=str(tmp_path), languages="triton")
    assert result.outcome == "verified"
    assert RunDirectory(Path(result.run_dir)).candidate(result.best).slots["tile"] in (32, 128)


def test_a_kernel_that_fails_the_final_check_gives_way_to_the_next_best(problem_file, tmp_path, given):
    result = optimize(problem_file, given=given(fates={64: "final"}), out=str(tmp_path), languages="triton")
    assert result.outcome == "verified"
    assert RunDirectory(Path(result.run_dir)).candidate(result.best).slots["tile"] in (32, 128)


def test_where_nothing_passes_the_result_says_so_and_no_best_is_written(problem_file, tmp_path, given):
    fates = dict.fromkeys((16, 32, 256, 128, 64, 512, 1024, 8, 4, 2), "wrong")
    result = optimize(problem_file, given=given(fates=fates), out=str(tmp_path))
    assert (result.outcome, result.best, result.speedup) == ("nothing", None, None)
    assert set(result.statuses) == {"incorrect_numerical"}
    assert not (Path(result.run_dir) / "best.py").exists()


def test_where_everything_fails_cross_validation_nothing_is_returned(problem_file, tmp_path, given):
    fates = dict.fromkeys((16, 32, 256, 128, 64, 512, 1024, 8, 4, 2), "full")
    result = optimize(problem_file, given=given(fates=fates), out=str(tmp_path), languages="triton")
    assert (result.outcome, result.best) == ("nothing", None)


def test_a_dry_run_keeps_the_best_estimate_and_calls_it_estimated(problem_file, tmp_path, given):
    harness = ScriptedHarness(dry=True)
    result = optimize(problem_file, given=given(harness=harness), out=str(tmp_path))
    assert result.outcome == "estimated"
    assert result.best == WINNER.id
    assert [what for what, _ in harness.calls].count("full") == 0  # All tiers of a dry run are one.
    assert (result.speedup, result.speedup_over, result.timings) == (None, {}, ())
    assert result.estimated_sol_fraction == pytest.approx(2.2 * 1.05**3)
    html = (Path(result.run_dir) / "report.html").read_text()
    assert "Estimated, untimed" in html
    assert ("only compiled, never compared" in html) == (result.language == "cuda")
    table = html.partition("~speed of light")[2].partition("<h2>")[0]
    assert "%" in table
    assert "×" not in table  # A fraction of a bound is no speedup.
    steps = dict(stream_nodes(problem_file, tmp_path / "again", given(harness=ScriptedHarness(dry=True))))
    assert (steps["final_check"]["winner"], steps["final_check"]["speedup"]) == (WINNER.id, None)


def test_nothing_unverified_is_kept_on_a_gpu(problem_file, tmp_path, given):
    class Unsure(ScriptedHarness):
        def evaluate(self, problem, candidate, tier="quick"):
            return ScriptedHarness(dry=True).evaluate(problem, candidate, tier)

    result = optimize(problem_file, given=given(harness=Unsure()), out=str(tmp_path), languages="triton")
    assert result.statuses["unverified"] == result.tried
    assert result.outcome == "nothing"


@pytest.mark.parametrize(
    ("languages", "used"), [("triton", {"triton"}), ("cuda", {"cuda"}), ("both", {"triton", "cuda"})]
)
def test_only_the_languages_asked_for_are_written(problem_file, tmp_path, given, languages, used):
    result = optimize(problem_file, given=given(), out=str(tmp_path), languages=languages)
    assert {entry.language for entry in result.trajectory} == used
    assert result.outcome == "verified"


def test_without_a_triton_seed_cuda_explores_by_itself(problem_file, tmp_path, given):
    writers = {"triton": ScriptedWriter("triton", tiles=()), "cuda": ScriptedWriter("cuda")}
    result = optimize(problem_file, given=given(writers=writers), out=str(tmp_path))
    assert result.best == WINNER.id
    assert writers["cuda"].briefs[0].directive == "explore"


def test_writers_hear_of_the_last_round_and_never_get_what_was_tried(problem_file, tmp_path, given):
    writers = {"triton": ScriptedWriter("triton", fates={32: "compile"})}
    optimize(problem_file, given=given(writers=writers), out=str(tmp_path), languages="triton")
    second = writers["triton"].briefs[1]
    heard = {feedback.status: feedback for feedback in second.feedback}
    assert heard["compile_error"].error_digest == "no such tile"
    assert len(second.tried) == 4
    assert [scored.evaluation.rank for scored in second.pool] == sorted(
        (scored.evaluation.rank for scored in second.pool), reverse=True
    )
    assert any(brief.directive == "tune" and brief.seeds for brief in writers["triton"].briefs)


def test_evaluations_run_at_once_up_to_the_setting(problem_file, tmp_path, given):
    wide, narrow = ScriptedHarness(delay_s=0.05), ScriptedHarness(delay_s=0.01)
    optimize(problem_file, given=given(harness=wide), out=str(tmp_path), budget=4, max_concurrency=4)
    optimize(problem_file, given=given(harness=narrow), out=str(tmp_path), budget=4, max_concurrency=1)
    assert wide.most_at_once > 1
    assert narrow.most_at_once == 1


def test_the_same_recorded_answers_give_the_same_nodes_candidates_and_winner(problem_file, tmp_path, given):
    recording = tmp_path / "recording.jsonl"
    made = stream_nodes(problem_file, tmp_path / "made", given(), record=str(recording))
    first = stream_nodes(problem_file, tmp_path / "first", None, replay=str(recording))
    second = stream_nodes(problem_file, tmp_path / "second", None, replay=str(recording))
    assert [node for node, _ in made] == [node for node, _ in first] == [node for node, _ in second]
    assert evaluated_ids(made) == evaluated_ids(first) == evaluated_ids(second)
    assert len(evaluated_ids(first)) > 15
    winners = [dict(steps)["final_check"]["winner"] for steps in (made, first, second)]
    assert winners == [WINNER.id] * 3


def test_a_changed_source_file_is_an_error_of_the_machine_not_a_verdict(problem_file, tmp_path, given):
    run = RunDirectory(tmp_path / "run")
    run.add_candidate(kernel("triton", 64))
    run.source_path(kernel("triton", 64).id).write_text("class ModelNew: pass\n")
    with pytest.raises(Exception, match="was changed during the run"):
        run.candidate(kernel("triton", 64).id)


def test_updates_name_exactly_the_channels_of_the_state():
    assert set(Update.__annotations__) == set(State.model_fields)


def test_events_tell_each_candidate_in_one_line(problem_file, tmp_path, given):
    result: Result = optimize(problem_file, given=given(), out=str(tmp_path), budget=8)
    lines = [json.loads(line) for line in (Path(result.run_dir) / "events.jsonl").read_text().splitlines()]
    evaluated = [line for line in lines if line["event"] == "evaluated"]
    assert sorted(line["candidate"] for line in evaluated) == sorted(entry.id for entry in result.trajectory)
    assert lines[-1]["event"] == "finished"
    assert all("timestamp" in line for line in lines)


def test_the_recursion_limit_grows_with_the_budget_and_holds_for_the_narrowest_search(problem_file, tmp_path, given):
    result = optimize(problem_file, given=given(), out=str(tmp_path), width=1, patience=30, budget=30)
    assert result.outcome == "verified"
    assert recursion_limit(Context(budget=300)) > recursion_limit(Context(budget=30))


def test_a_run_shows_its_tool_calls(problem_file, tmp_path, given):
    from langchain_core.callbacks import BaseCallbackHandler

    class Calls(BaseCallbackHandler):
        names: list[str] = []

        def on_tool_start(self, serialized, input_str, **kwargs):
            self.names.append(serialized["name"])

    context = Context(budget=4, out=str(tmp_path))
    run_dir = new_run_directory(tmp_path, problem_file)
    provide(open_services(run_dir, context, given()))
    inputs = {"problem": str(problem_file), "run_dir": str(run_dir)}
    graph.invoke(inputs, {"callbacks": [Calls()], "recursion_limit": 200}, context=context)
    assert Calls.names.count("compile_kernel") == 4
    assert {"check_correctness", "time_kernel"} <= set(Calls.names)


def test_a_kernel_that_tunes_itself_is_judged_frozen(problem_file, tmp_path, given):
    tuned = kernel("triton", 64)
    configs = "[triton.Config({}, num_warps=4), triton.Config({}, num_warps=8)]"
    source = f"{tuned.source}@triton.autotune(configs={configs}, key=[])\ndef k(x): pass\n"

    class Tuned(ScriptedWriter):
        def propose(self, brief, n):
            return [make_candidate(source, "triton", origin="llm", slots=tuned.slots)] if not brief.tried else []

    result = optimize(
        problem_file, given=given(writers={"triton": Tuned("triton")}), out=str(tmp_path), languages="triton"
    )
    assert [entry.note for entry in result.trajectory] == [
        f"frozen to triton.Config({{}}, num_warps={warps})" for warps in (4, 8)
    ]
    assert Path(result.best_path).read_text().count("triton.Config") == 1
