"""How a loop template is held to the interpreter: its kernel runs on the CPU emulation, output by output."""

import torch
from cuda_emulation import emulation
from cuda_emulation.loop_plans import program_of
from programs.interpreter import run_plan
from programs.sheets import H200

from warpsmith.state.lowered import bound
from warpsmith.state.program import ForwardPlan
from warpsmith.state.sizes import value as number
from warpsmith.sub_agents.kernel_source import KernelSource, Template
from warpsmith.sub_agents.slots import Setting


def draw(plan: ForwardPlan, rng_seed: int = 0, misaligned: bool = False) -> list[torch.Tensor]:
    """Normal (or small integer) tensors for the plan's inputs; `misaligned` ones start one element late."""
    generator = torch.Generator().manual_seed(rng_seed)
    drawn = []
    for name in plan.inputs:
        record = plan.values[name]
        shape = [number(size, plan.hints) for size in record.shape]
        dtype = getattr(torch, record.dtype)
        if dtype.is_floating_point:
            made = torch.randn(shape, generator=generator).to(dtype)
        else:
            made = torch.randint(-20, 20, shape, generator=generator).to(dtype)
        if misaligned:
            holder = torch.zeros(made.numel() + 1, dtype=dtype)
            holder[1:] = made.reshape(-1)
            made = holder[1:].view(shape)
        drawn.append(made)
    return drawn


def default(template: Template, plan: ForwardPlan) -> Setting:
    return {slot.name: slot.default for slot in template.slots(program_of(plan), plan.hints, H200)}


def render(template: Template, plan: ForwardPlan, setting: Setting) -> KernelSource:
    values = {name: (record.shape, record.dtype) for name, record in plan.values.items()}
    return template.render(program_of(plan), setting, values)


def emulated(
    template: Template, plan: ForwardPlan, setting: Setting, tensors: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Outputs of the whole host function on the CPU emulation."""
    source = render(template, plan, setting)
    symbols = bound(plan.symbols, lambda number, dim: tensors[number].shape[dim])
    return list(emulation.run(source, dict(zip(plan.inputs, tensors, strict=True)), symbols))


def check(template: Template, plan: ForwardPlan, setting: Setting, tensors: list[torch.Tensor]) -> None:
    """Emulates the kernel and compares every output with the brute-force interpreter."""
    outputs = emulated(template, plan, setting, tensors)
    expected = run_plan(plan, tensors)
    wanted = expected if isinstance(expected, (list, tuple)) else [expected]
    assert len(outputs) == len(wanted)
    for mine, want in zip(outputs, wanted, strict=True):
        assert mine.dtype == want.dtype
        assert mine.shape == want.shape
        tolerance = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float64: 1e-10}.get(want.dtype, 2e-5)
        torch.testing.assert_close(mine, want, rtol=tolerance, atol=tolerance, equal_nan=True)
