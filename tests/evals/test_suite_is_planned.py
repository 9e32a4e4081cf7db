"""The offline planner expresses the whole suite as kernels of its own."""

import importlib.util

import pytest
import torch

from warpsmith.evals.suite import SUITE, SuiteProblem
from warpsmith.sub_agents.planner.forward import forward_plan
from warpsmith.tools.worker.lowering import lower

CHANGES_ITS_INPUTS = {"ema_in_place"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", [entry for entry in SUITE if entry.name not in CHANGES_ITS_INPUTS], ids=lambda entry: entry.name
)
def test_nothing_is_left_to_pytorch(entry: SuiteProblem) -> None:
    """At the main workload's sizes, on the meta device."""
    spec = importlib.util.spec_from_file_location(entry.name, entry.path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.device("meta"):
        graph = lower(module.Model(*module.get_init_inputs()), module.get_inputs(), deadline_s=30.0)
    assert graph.unsupported == ""
    plan = forward_plan(graph)
    assert plan.uncovered == ()
    assert [step.name for step in plan.steps if step.kind == "torch"] == []
