"""Programs that read at computed places, in every CUDA template that fits them."""

import functools
from random import Random
from typing import Any

import pytest
from cuda_emulation.compiling import cubin, modules, resources
from cuda_emulation.holding import H200, check, default, render
from cuda_emulation.loop_plans import program_of
from programs.moving import moving

from warpsmith.state.program import ForwardPlan
from warpsmith.sub_agents.kernel_source import Template
from warpsmith.sub_agents.slot_moves import spread
from warpsmith.sub_agents.slots import Setting
from warpsmith.sub_agents.templates.registry import templates

NAMES = ("padded", "padded_halves", "joined_sum", "largest_wide", "chosen", "gathered_at_best", "between_sizes")


@functools.cache
def case(name: str) -> tuple[ForwardPlan, list[Any]]:
    return moving(name)


def fitting(plan: ForwardPlan) -> list[Template]:
    program = program_of(plan)
    assert program.tables
    found: list[Template] = [each for each in templates("cuda") if each.fits(program, plan.hints)]
    assert found
    return found


def settings(template: Template, plan: ForwardPlan) -> list[Setting]:
    """The default, and one that differs in much."""
    program = program_of(plan)
    slots = template.slots(program, plan.hints, H200)
    others = spread(slots, lambda s: template.legal(program, s, plan.hints, H200), Random(3), 1)
    return [default(template, plan), *others]


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_gives_what_the_interpreter_gives(name: str) -> None:
    plan, inputs = case(name)
    for template in fitting(plan):
        for setting in settings(template, plan):
            check(template, plan, setting, inputs)


@pytest.mark.parametrize("name", ["padded_halves", "largest_wide"])
def test_kernels_compile_for_sm_90(name: str) -> None:
    plan, _ = case(name)
    for template in fitting(plan):
        for code, options in modules(render(template, plan, default(template, plan)), plan.hints):
            found = resources(cubin(code, options))
            assert found
            assert all(used["stack"] == 0 for used in found.values())
