"""CUDA loop templates on a GPU at real sizes: every default, and a sample of other settings, against float64."""

from typing import Any

import pytest
from cuda_emulation.holding import default, draw, render
from cuda_emulation.loop_plans import moments_body, plan_of, program_of, softmax_body
from programs.examples import layer_norm, relu_add, softmax
from programs.interpreter import run_plan

from warpsmith.state.lowered import bound
from warpsmith.state.program import ForwardPlan
from warpsmith.sub_agents.kernel_source import KernelSource
from warpsmith.sub_agents.slots import Setting
from warpsmith.sub_agents.templates.pairwise import pairwise
from warpsmith.sub_agents.templates.registry import templates

pytestmark = pytest.mark.gpu
ROWS = (False, True)
COLUMNS = (False, True, False)
PLANS: dict[str, ForwardPlan] = {
    "bias_relu": relu_add(3001, 4096),
    "bias_relu_odd": relu_add(3001, 4095),
    "flat_odd": plan_of((10000019,), (False,), [("t", "tanh", "float32", 0, "in_x")], {"y": ("t", "float32")}),
    "transposed_bf16": plan_of(
        (3000, 2048),
        (False, False),
        [("t", "add", "bfloat16", 0, "in_x", "in_r")],
        {"y": ("t", "bfloat16")},
        loads={"x": (1, 3000), "r": (2048, 1)},
        dtypes={"x": "bfloat16", "r": "bfloat16"},
    ),
    "softmax_1000": softmax(3001, 1000),
    "softmax_symbolic": softmax("s0", "s1", {"s0": (0, 0, 1024), "s1": (0, 1, 4096)}),
    "softmax_393216": softmax(33, 393216),
    "softmax_fp16": plan_of(
        (500, 16384), ROWS, softmax_body("float16"), {"y": ("result", "float16")}, dtypes={"x": "float16"}
    ),
    "layer_norm_1024": layer_norm(5000, 1024),
    "layer_norm_bf16_4096": layer_norm(3000, 4096, "bfloat16"),
    "layer_norm_few_rows": layer_norm(3, 1000000),
    "column_softmax": plan_of((5, 700, 1024), COLUMNS, softmax_body(), {"y": ("result", "float32")}),
    "column_moments": plan_of((9, 64, 4096), COLUMNS, moments_body(64), {"y": ("result", "float32")}),
    "column_sum": plan_of(
        (300000, 64), (True, False), [("t", "reduce_sum", "float32", 0, "in_x")], {"y": ("t", "float32")}
    ),
    "moments_row": plan_of((20, 200000), ROWS, moments_body(200000), {"y": ("result", "float32")}),
}
TEMPLATES = {each.name: each for each in templates("cuda")}
FITTING = [
    (template, name)
    for template in TEMPLATES
    for name, plan in PLANS.items()
    if TEMPLATES[template].fits(program_of(plan), plan.hints)
]


def launched(source: KernelSource, inputs: dict[str, Any], symbols: dict[str, int]) -> list[Any]:
    """Outputs of the candidate's function on the GPU."""
    import torch

    names: dict[str, Any] = {}
    exec("\n".join(source.imports) + "\n" + source.code, names)
    result = names[source.function](*(inputs[n] for n in source.reads), *(symbols[n] for n in source.symbols))
    torch.cuda.synchronize()
    return list(result) if isinstance(result, tuple) else [result]


def compare(template: str, name: str, settings: list[Setting]) -> None:
    """Every setting's outputs against the interpreter's on the CPU, relative to the largest value of a row."""
    import torch

    plan = PLANS[name]
    tensors = draw(plan)
    expected = run_plan(plan, tensors)
    wanted = expected if isinstance(expected, (list, tuple)) else [expected]
    inputs = {n: t.cuda() for n, t in zip(plan.inputs, tensors, strict=True)}
    symbols = bound(plan.symbols, lambda number, dim: tensors[number].shape[dim])
    for setting in settings:
        outputs = launched(render(TEMPLATES[template], plan, setting), inputs, symbols)
        for mine, want in zip(outputs, wanted, strict=True):
            assert mine.dtype == want.dtype
            tolerance = {torch.bfloat16: 1e-2, torch.float16: 2e-3}.get(want.dtype, 2e-5)
            scale = float(want.double().abs().max())
            error = float((mine.cpu().double() - want.double()).abs().max())
            assert error <= tolerance * scale, f"{name} {setting}: {error} beside values of {scale}"


@pytest.mark.parametrize(("template", "name"), FITTING)
def test_defaults_are_right_at_real_sizes(template: str, name: str) -> None:
    compare(template, name, [default(TEMPLATES[template], PLANS[name])])


@pytest.mark.slow
@pytest.mark.parametrize("template", sorted({t for t, _ in FITTING}))
def test_a_pairwise_cover_of_choices_is_right(template: str) -> None:
    from cuda_emulation.holding import H200

    name = next(n for t, n in FITTING if t == template)
    plan, chosen = PLANS[name], TEMPLATES[template]
    slots = chosen.slots(program_of(plan), plan.hints, H200)
    compare(template, name, list(pairwise(slots, lambda s: chosen.legal(program_of(plan), s, plan.hints, H200))))
