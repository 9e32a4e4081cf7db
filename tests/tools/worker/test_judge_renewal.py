"""A judge that draws anew: nothing that was drawn before is held against a candidate."""

from pathlib import Path
from typing import Any

import pytest
import torch

from warpsmith.state.problem import Problem
from warpsmith.tools.worker import judge as judges
from warpsmith.tools.worker.problem_module import ProblemModule

SOURCE = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)
    def forward(self, x):
        return self.linear(x)
def get_inputs(rows=48):
    return [torch.randn(rows, 8)]
ranges = {"rows": (1, 64)}
"""


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread_without_gradients: None) -> Any:
    monkeypatch.setattr(judges.baselines, "use_cache", lambda *_: None)
    made = judges.Judge(None, {"device": "cpu", "work_dir": str(tmp_path)})  # type: ignore[arg-type]
    problem: Problem = ProblemModule(tmp_path / "p.py", SOURCE).describe()
    made.open({"problem": problem.model_dump(mode="json"), "bounds": {}})
    return made


def test_a_hidden_workload_has_buffers_of_its_own_sizes(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row would be written all over the last one's 31, and a right answer to 31 refused."""
    sizes = iter((31, 1))
    monkeypatch.setattr(
        judges.hidden, "neighbour", lambda _, module, __: module.workload("hidden-one", {"rows": next(sizes)}, False)
    )
    for rows in (31, 1):
        judge.renew({})
        workload = judge.neighbour()
        bench = judge.bench(workload, judge.expectation(workload, "normal", 0, "random"))
        assert [tuple(tensor.shape) for tensor in bench.input_tensors()] == [(rows, 8)]


def test_a_renewal_that_fails_leaves_no_expected_values_of_other_draws(
    judge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller is told, and the judge lives on: what it held must not be compared with new inputs."""
    workload, before = judge.problem.primary, (judge.model_seed, judge.models)

    def no_room(*_: Any) -> None:
        raise torch.OutOfMemoryError

    judge.expectation(workload, "normal", 0, "random")
    with monkeypatch.context() as patch:
        patch.setattr(judge.module, "model", no_room)
        with pytest.raises(torch.OutOfMemoryError):
            judge.renew({})
    assert (judge.model_seed, judge.models) == before
    (found,) = judge.expectation(workload, "normal", 0, "random").leaves
    exact = judge.models["random"].double()(judge.inputs(workload, "normal")[0].double())
    torch.testing.assert_close(found.oracle, exact, rtol=1e-9, atol=1e-9)


def test_no_timed_call_has_the_inputs_of_a_check(judge: Any) -> None:
    """A candidate saw those before the clock started, and could answer from memory."""
    workload = judge.problem.primary
    checked = [judge.inputs(workload, "problem", number)[0] for number in range(64)]
    for number in range(-1, 64):
        (timed,) = judge.timed_inputs(workload, number)
        assert not any(torch.equal(timed, each) for each in checked)
