"""CUDA kernels that overwrite the input that they update, on the CPU emulation."""

from copy import deepcopy

import pytest
import torch
from cuda_emulation.holding import default, emulated
from cuda_emulation.loop_plans import plan_of, program_of, softmax_body
from programs.interpreter import run_plan

from warpsmith.state.program import ForwardPlan
from warpsmith.sub_agents.templates.registry import templates

AVERAGE = plan_of(
    (1000,),
    (False,),
    [
        ("kept", "mul", "float32", 0, "in_x", 0.9),
        ("new", "mul", "float32", 0, "in_y", 0.1),
        ("result", "add", "float32", 0, "kept", "new"),
    ],
    {"z": ("result", "float32")},
    loads={"x": (1,), "y": (1,)},
)
SOFTMAX = plan_of((6, 2500), (False, True), softmax_body(), {"z": ("result", "float32")})


def overwriting(plan: ForwardPlan) -> ForwardPlan:
    step = program_of(plan)
    stores = tuple(store.model_copy(update={"into": "x"}) for store in step.stores)
    return plan.model_copy(update={"steps": (step.model_copy(update={"stores": stores}),)})


FITTING = [
    (template.name, name)
    for template in templates("cuda")
    for name, plan in (("average", AVERAGE), ("softmax", SOFTMAX))
    if template.fits(program_of(plan), plan.hints)
]


@pytest.mark.parametrize(("name", "case"), FITTING)
def test_a_kernel_that_overwrites_its_input_gives_what_one_with_its_own_output_gives(name: str, case: str) -> None:
    plan = overwriting({"average": AVERAGE, "softmax": SOFTMAX}[case])
    template = next(t for t in templates("cuda") if t.name == name)
    tensors = [torch.randn(plan.values[value].shape) for value in plan.inputs]
    expected = run_plan(plan, deepcopy(tensors))[0]
    (found,) = emulated(template, plan, default(template, plan), tensors)
    torch.testing.assert_close(found, expected)
    assert found.data_ptr() == tensors[0].data_ptr()
