"""The harness as tools: schemas, one verdict a candidate, nothing hidden shown."""

import json
import threading
from pathlib import Path

import pytest
from pydantic import ValidationError
from scripted.collaborators import SOURCE, ScriptedHarness, kernel

from warpsmith.state.evaluation import Check, Status
from warpsmith.tools.toolbox import Toolbox

KERNEL = kernel("cuda", 64)


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    file = tmp_path / "p.py"
    file.write_text(SOURCE)
    harness = ScriptedHarness()
    return Toolbox(harness, harness.load(file))


def test_every_tool_has_a_described_schema(box):
    assert list(box.tools) == ["compile_kernel", "check_correctness", "time_kernel", "profile_kernel", "device_sheet"]
    for tool in box.tools.values():
        assert tool.description
        assert all(field.get("description") for field in tool.args.values())
    assert set(box.tools["time_kernel"].args) == {"source", "tier"}


def test_asking_for_correctness_and_time_judges_once(box):
    verdict = box.evaluate(KERNEL)
    assert verdict.status is Status.PASSED
    assert [call for call in box.harness.calls if call[0] == "quick"] == [("quick", KERNEL.id)]
    box.evaluate(KERNEL, "full")
    assert ("full", KERNEL.id) in box.harness.calls


def test_two_threads_asking_for_one_candidate_judge_it_once(box):
    box.harness.delay_s = 0.05
    threads = [threading.Thread(target=box.evaluate, args=(KERNEL,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(box.harness.calls) == 1


def test_a_model_that_knows_only_the_source_gets_the_same_verdict(box):
    answer = json.loads(box.tools["time_kernel"].invoke({"source": KERNEL.source}))
    assert answer["timings"][0]["speedup"] == pytest.approx(2.2)


def test_hidden_workloads_are_not_shown_to_a_model(box):
    class Hides(ScriptedHarness):
        def evaluate(self, problem, candidate, tier="quick"):
            evaluation = super().evaluate(problem, candidate, tier)
            secret = Check(workload="secret-shape", draw="spike", passed=True, hidden=True)
            return evaluation.model_copy(update={"checks": (*evaluation.checks, secret)})

    box.harness = Hides()
    box.compile_kernel(KERNEL)
    assert "secret-shape" not in box.tools["check_correctness"].invoke({"source": KERNEL.source})
    assert "secret-shape" not in box.tools["time_kernel"].invoke({"source": KERNEL.source})


def test_a_failed_candidate_is_an_answer_not_an_exception(box):
    verdict = box.evaluate(kernel("triton", 8, fate="wrong"))
    assert verdict.status is Status.INCORRECT_NUMERICAL
    report = box.compile_kernel(kernel("triton", 8, fate="compile"))
    assert report.ok is False


def test_wrong_arguments_are_refused(box):
    with pytest.raises(ValidationError, match="tier"):
        box.tools["time_kernel"].invoke({"source": "x", "tier": "thorough"})


def test_the_device_sheet_is_readable_json(box):
    assert json.loads(box.tools["device_sheet"].invoke({}))["sm_count"] == 132
