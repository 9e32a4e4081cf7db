"""The offline planner expresses all shipped problems as kernels of its own, at every size that they declare."""

import importlib.util
from types import ModuleType

import pytest
import torch

from warpsmith.evals.suite import SUITE, WIDER, SuiteProblem
from warpsmith.state.lowered import LoweredGraph
from warpsmith.sub_agents.planner.forward import forward_plan
from warpsmith.tools.worker.lowering import lower

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[*SUITE, *WIDER], ids=lambda entry: entry.name)
def entry(request: pytest.FixtureRequest) -> SuiteProblem:
    problem: SuiteProblem = request.param
    return problem


@pytest.fixture(scope="module")
def module(entry: SuiteProblem) -> ModuleType:
    spec = importlib.util.spec_from_file_location(entry.name, entry.path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def lowered(module: ModuleType) -> LoweredGraph:
    """At the main workload's sizes, on the meta device."""
    with torch.device("meta"):
        return lower(module.Model(*module.get_init_inputs()), module.get_inputs(), deadline_s=30.0)


def test_nothing_is_left_to_pytorch(lowered: LoweredGraph) -> None:
    assert lowered.unsupported == ""
    plan = forward_plan(lowered)
    assert plan.uncovered == ()
    updates = {f"update_{name}" for name in lowered.mutated}  # Copies into inputs that the reference changes.
    assert {step.name for step in plan.steps if step.kind == "torch"} == updates


def test_every_size_that_workloads_vary_is_free(module: ModuleType, lowered: LoweredGraph) -> None:
    """A size that export fixes makes kernels that fail on the problem's own other workloads."""
    inputs = [node for node in lowered.nodes if node.op == "input"]
    with torch.device("meta"):
        main, odd = module.get_inputs(), module.get_inputs(**module.workloads["odd"])
    for node, here, there in zip(inputs, main, odd, strict=True):
        assert node.output is not None
        for size, first, second in zip(node.output.shape, here.shape, there.shape, strict=True):
            assert isinstance(size, str) or first == second, f"{node.target}: {node.output.shape}"
