"""CUDA loop templates compile for sm_90 without a GPU: defaults everywhere, and a pairwise cover of their choices."""

import pytest
from cuda_emulation.compiling import cubin, modules, resources
from cuda_emulation.holding import H200, default, render
from cuda_emulation.loop_cases import CASES
from cuda_emulation.loop_plans import moments_body, plan_of, program_of, softmax_body
from programs.cover import cover_over
from programs.examples import layer_norm, relu_add, softmax

from warpsmith.state.program import ForwardPlan
from warpsmith.sub_agents.kernel_source import Template
from warpsmith.sub_agents.slots import Setting
from warpsmith.sub_agents.templates.registry import templates

TEMPLATES = {
    each.name: each
    for each in templates("cuda")
    if any(each.fits(program_of(plan), plan.hints) for plan in CASES.values())
}
ROWS = (False, True)
REAL: dict[str, ForwardPlan] = {
    "bias_relu": relu_add(16384, 8192),
    "gelu_flat": plan_of((1 << 28,), (False,), [("t", "erf", "float32", 0, "in_x")], {"y": ("t", "float32")}),
    "transposed": plan_of(
        (8192, 8192),
        (False, False),
        [("t", "add", "bfloat16", 0, "in_x", "in_r")],
        {"y": ("t", "bfloat16")},
        loads={"x": (1, 8192), "r": (8192, 1)},
        dtypes={"x": "bfloat16", "r": "bfloat16"},
    ),
    "softmax_4096": softmax(8192, 4096),
    "softmax_symbolic": softmax("s0", "s1", {"s0": (0, 0, 8192), "s1": (0, 1, 4096)}),
    "softmax_of_odd_rows": plan_of(
        ("s0", "s1"),
        ROWS,
        softmax_body("bfloat16"),
        {"y": ("result", "bfloat16")},
        dtypes={"x": "bfloat16"},
        symbols={"s0": (0, 0, 200000), "s1": (0, 1, 577)},
    ),
    "odd_planes": plan_of(
        ("s0", 96, "s1"),
        (False, False, False),
        [("t", "mul", "float32", 0, "in_x", "in_c"), ("u", "div", "float32", 0, "t", 6.0)],
        {"y": ("u", "float32")},
        loads={"x": ("96*s1", "s1", 1), "c": (0, 1, 0)},
        symbols={"s0": (0, 0, 64), "s1": (0, 2, 12769)},
    ),
    "softmax_393216": softmax(4096, 393216),
    "softmax_bf16_32768": plan_of(
        (4096, 32768), ROWS, softmax_body("bfloat16"), {"y": ("result", "bfloat16")}, dtypes={"x": "bfloat16"}
    ),
    "layer_norm_1024": layer_norm(32768, 1024),
    "layer_norm_bf16_4096": layer_norm(16384, 4096, "bfloat16"),
    "layer_norm_of_images": layer_norm(16, 64 * 256 * 256),
    "channel_norm": plan_of(
        (112, 64, 512 * 512),
        (False, True, False),
        [
            ("sq", "square", "float32", 0, "in_x"),
            ("total", "reduce_sum", "float32", 0, "sq"),
            ("scale", "rsqrt", "float32", 1, "total"),
            ("result", "mul", "float32", 1, "in_x", "scale"),
        ],
        {"y": ("result", "float32")},
    ),
    "column_softmax": plan_of((64, 1024, 1024), (False, True, False), softmax_body(), {"y": ("result", "float32")}),
    "column_sum": plan_of(
        (1000000, 64), (True, False), [("t", "reduce_sum", "float32", 0, "in_x")], {"y": ("t", "float32")}
    ),
    "moments_row": plan_of((64, 200000), ROWS, moments_body(200000), {"y": ("result", "float32")}),
}
"""Sizes that fill a GPU."""


def fitting(plans: dict[str, ForwardPlan]) -> list[tuple[str, str]]:
    return [(t, n) for t in TEMPLATES for n, plan in plans.items() if TEMPLATES[t].fits(program_of(plan), plan.hints)]


def compiled(template: Template, plan: ForwardPlan, setting: Setting) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for code, options in modules(render(template, plan, setting), plan.hints):
        found |= resources(cubin(code, options))
    assert found
    return found


@pytest.mark.parametrize(("template", "name"), fitting(REAL))
def test_defaults_at_real_sizes_are_legal_and_spill_nothing(template: str, name: str) -> None:
    plan, chosen = REAL[name], TEMPLATES[template]
    setting = default(chosen, plan)
    assert chosen.legal(program_of(plan), setting, plan.hints, H200)
    for kernel, used in compiled(chosen, plan, setting).items():
        assert used["stack"] == 0, f"{kernel} spills: {used}"
        assert used["shared"] <= 48 * 1024


@pytest.mark.parametrize(("template", "shape"), [("cuda_row_block", ("s0", "s1")), ("cuda_column", ("s0", "s1", 64))])
def test_what_is_far_longer_than_a_setting_is_for_is_not_unrolled(template: str, shape: tuple[int | str, ...]) -> None:
    """One workload's settings compile for all of them: a thread's thousand elements took 15 seconds, laid out one by
    one."""
    symbols, reduced = {"s0": (0, 0, 4096), "s1": (0, 1, 512)}, (False, True, False)[: len(shape)]
    plan = plan_of(shape, reduced, softmax_body(), {"y": ("result", "float32")}, symbols=symbols)
    chosen = TEMPLATES[template]
    setting = default(chosen, plan)
    assert setting.get("keep", "registers") == "registers"
    made = [modules(render(chosen, plan, setting), {**plan.hints, "s1": size}) for size in (512, 512 * 512)]
    own, longer = (len(cubin(code, options)) for ((code, options),) in made)
    assert longer < 2 * own


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_legal_pair_of_choices_compiles(template: str) -> None:
    chosen = TEMPLATES[template]
    names = [n for t, n in fitting({**REAL, **CASES}) if t == template]
    # Two programs a template: its first real one and the last case, which are of different shapes.
    plans = {name: {**REAL, **CASES}[name] for name in dict.fromkeys((names[0], names[-1]))}
    listed = list(
        cover_over(
            {
                name: (
                    chosen.slots(program_of(plan), plan.hints, H200),
                    lambda s, plan=plan: chosen.legal(program_of(plan), s, plan.hints, H200),  # type: ignore[misc]
                )
                for name, plan in plans.items()
            }
        )
    )
    assert listed
    for name, setting in listed:
        for code, options in modules(render(chosen, plans[name], setting), plans[name].hints):
            assert cubin(code, options), f"{name} {setting}"
