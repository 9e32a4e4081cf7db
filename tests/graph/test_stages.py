"""Stages: what is switched off below the last, and what the full judge says of what they accept."""

import pytest
from scripted.collaborators import ScriptedHarness, ScriptedWriter, kernel

from warpsmith.graph import optimize
from warpsmith.graph.stages import staged, told
from warpsmith.state.channels import Context
from warpsmith.state.feedback import Feedback

STAGES = ("one-shot", "correctness", "profiler", "search", "hardened")


@pytest.mark.parametrize("stage", STAGES)
def test_staging_twice_is_staging_once(stage):
    once = staged(Context(stage=stage))
    assert staged(once) == once


def test_each_stage_switches_more_on(problem_file, tmp_path, given):
    results = {
        stage: optimize(problem_file, given=given(), out=str(tmp_path), stage=stage, languages="triton", budget=12)
        for stage in STAGES
    }
    assert results["one-shot"].tried == 1
    assert all(result.tried > 3 for stage, result in results.items() if stage != "one-shot")
    assert results["one-shot"].speedup < results["correctness"].speedup <= results["search"].speedup
    assert all(results[stage].audit is not None for stage in STAGES[:-1])
    assert results["hardened"].audit is None
    assert results["search"].audit.claimed == pytest.approx(results["search"].audit.measured)


def test_without_times_writers_see_errors_and_no_pool(problem_file, tmp_path, given):
    writers = {"triton": ScriptedWriter("triton", fates={32: "compile"})}
    optimize(
        problem_file, given=given(writers=writers), out=str(tmp_path), stage="correctness", languages="triton", budget=8
    )
    second = writers["triton"].briefs[1]
    assert second.pool == ()
    assert {each.time for each in second.feedback} == {""}
    assert {each.bottleneck for each in second.feedback} == {""}
    assert any(each.error_digest for each in second.feedback)


def test_times_are_left_out_of_feedback_only_where_they_are_off():
    heard = Feedback(candidate="k", status="passed", error_digest="", time="1 ms", trend="better", bottleneck="memory")
    assert told(heard, Context(stage="profiler")) == heard
    blind = told(heard, Context(stage="correctness"))
    assert (blind.time, blind.trend, blind.bottleneck, blind.status) == ("", "first", "", "passed")


def test_what_a_stage_wrongly_accepts_is_audited_and_not_handed_out(problem_file, tmp_path, given):
    """Tile 64 is the fastest and wrong wherever it is looked at thoroughly."""
    search = optimize(
        problem_file, given=given(fates={64: "full"}), out=str(tmp_path), stage="search", languages="triton"
    )
    assert search.audit.wrongly_accepted
    assert search.audit.candidate in {kernel("triton", 64, stages, fate="full").id for stages in range(1, 5)}
    assert (search.audit.status, search.audit.claimed > 2) == ("incorrect_numerical", True)
    assert search.outcome == "nothing"
    hardened = optimize(problem_file, given=given(fates={64: "full"}), out=str(tmp_path), languages="triton")
    assert hardened.outcome == "verified"


def test_below_hardened_nothing_is_measured_twice(problem_file, tmp_path, given):
    harness = ScriptedHarness()
    optimize(problem_file, given=given(harness=harness), out=str(tmp_path), stage="search")
    tiers = [what for what, _ in harness.calls]
    assert (tiers.count("full"), tiers.count("record")) == (0, 1)
