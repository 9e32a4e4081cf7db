"""The five fields: what a writer hears of a kernel that is slow, right, wrong or no kernel at all."""

from pathlib import Path

import pytest
from scripted.collaborators import SOURCE, ScriptedHarness, kernel

from warpsmith.graph.feedback import Goal, make_feedback
from warpsmith.state.candidate import Candidate
from warpsmith.state.evaluation import Check, Evaluation
from warpsmith.state.problem import Target
from warpsmith.state.trajectory import TargetGap


@pytest.fixture
def judge(tmp_path: Path):
    file = tmp_path / "p.py"
    file.write_text(SOURCE)

    def run(candidate: Candidate, speed: float = 1.0, dry: bool = False) -> Evaluation:
        harness = ScriptedHarness(speed=speed, dry=dry)
        return harness.evaluate(harness.load(file), candidate)

    return run


def target(gap: float, comparable: bool = True) -> TargetGap:
    published = Target(ms=0.4, gpu="H200", workload="default", source="made up")
    return TargetGap(target=published, comparable=comparable, gap=gap, beaten=comparable and gap < 0)


def test_a_passed_kernel_hears_its_time_the_best_time_and_the_gap(judge):
    found = judge(kernel("triton", 32))
    heard = make_feedback(found, judge(kernel("triton", 64)), 2.0, "memory: busy", Goal(best_ms=0.5))
    assert (heard.status, heard.error_digest, heard.trend) == ("passed", "", "worse")
    assert heard.bottleneck == "memory: busy"
    assert heard.time == "0.625 ms, 1.6x, 40% of the speed of light; best 0.5 ms, 2x; 25.0% slower than it"


def test_the_best_hears_that_it_is_the_best(judge):
    heard = make_feedback(judge(kernel("triton", 64)), None, 2.0, "")
    assert heard.time == "0.5 ms, 2x, 50% of the speed of light; best 2x; the best so far"


def test_an_estimate_is_called_one_and_has_no_speed_of_light(judge):
    heard = make_feedback(judge(kernel("triton", 64), dry=True), None, 4.0, "")
    assert heard.time == "about 0.5 ms, 2x; best 4x; 100.0% slower than it"


@pytest.mark.parametrize(
    ("speed", "against", "status"),
    [
        (0.4, None, "below_target"),  # slower than the baseline
        (1.0, None, "passed"),
        (1.0, target(0.25), "below_target"),
        (1.0, target(-0.25), "passed"),
        (1.0, target(0.25, comparable=False), "passed"),
    ],
)
def test_a_right_kernel_short_of_its_target_is_below_target(judge, speed, against, status):
    found = judge(kernel("triton", 64), speed=speed)
    assert make_feedback(found, None, 2.0, "", Goal(target=against)).status == status


def test_the_gap_to_a_target_is_told(judge):
    found = judge(kernel("triton", 64))
    assert make_feedback(found, None, 2.0, "", Goal(target=target(0.25))).time.endswith("; target 0.4 ms: 25.0% slower")
    elsewhere = make_feedback(found, None, 2.0, "", Goal(target=target(-0.1, comparable=False)))
    assert elsewhere.time.endswith("; target 0.4 ms: 10.0% faster, on another GPU")


@pytest.mark.parametrize(("stages", "trend"), [(1, "level"), (2, "better")])
def test_the_trend_is_against_the_parent(judge, stages, trend):
    assert make_feedback(judge(kernel("triton", 64, stages)), judge(kernel("triton", 64)), 2.0, "").trend == trend


def test_a_difference_within_both_measurements_is_level(judge):
    """5% better by the medians, and 8% of scatter in each."""
    parent, child = judge(kernel("triton", 64)), judge(kernel("triton", 64, stages=2))
    (timing,) = child.timings
    middle = timing.candidate.median_ms
    scattered = timing.candidate.model_copy(update={"low_ms": 0.92 * middle, "high_ms": 1.08 * middle})
    noisy = child.model_copy(update={"timings": (timing.model_copy(update={"candidate": scattered}),)})
    assert make_feedback(child, parent, 2.1, "").trend == "better"
    assert make_feedback(noisy, parent, 2.1, "").trend == "level"


def test_without_a_parent_that_passed_a_kernel_is_the_first(judge):
    assert make_feedback(judge(kernel("triton", 64)), None, 2.0, "").trend == "first"
    failed = judge(kernel("triton", 32, fate="compile"))
    assert make_feedback(judge(kernel("triton", 64)), failed, 2.0, "").trend == "first"


def test_a_compile_error_is_its_decisive_line(judge):
    heard = make_feedback(judge(kernel("triton", 64, fate="compile")), None, 2.0, "")
    assert (heard.status, heard.error_digest) == ("compile_error", "no such tile")
    assert (heard.time, heard.trend) == ("", "failed")


def wrong(judge, **fields) -> str:
    check = Check(workload="odd", draw="spike", passed=False, worst="worst at [3, 7]: 1 instead of 2", **fields)
    found = judge(kernel("triton", 64, fate="wrong")).model_copy(update={"checks": (check,)})
    return make_feedback(found, None, 2.0, "").error_digest


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("tail", "only at the end of a dimension (tail)"),
        ("tile_edge", "only at tile edges"),
        ("one_channel", "only in one channel"),
        ("whole", "all over the output"),
    ],
)
def test_a_wrong_answer_is_its_worst_error_and_where(judge, place, said):
    assert wrong(judge, place=place) == (
        f"incorrect_numerical on workload odd, draw spike, {said}: worst at [3, 7]: 1 instead of 2"
    )


def test_a_hidden_workload_gives_classes_only(judge):
    assert wrong(judge, hidden=True) == "incorrect_numerical on a hidden workload"
    assert wrong(judge, hidden=True, place="tail") == (
        "incorrect_numerical on a hidden workload, only at the end of a dimension (tail)"
    )
