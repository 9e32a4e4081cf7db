"""CUDA matrix-product templates: emulated on the CPU, compiled for sm_90, and on a GPU against float64."""

import pytest
from programs.matmul_cases import SHAPES, Layout, cases, large_cases
from programs.matmul_cuda import compiled, emulated_error
from programs.matmul_run import H200, defaults, settings, template_named

TEMPLATES = ("cuda_matmul", "cuda_matmul_hopper")
BOUND = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 6e-3}


def rounding(layout: Layout) -> float:
    """What rounding the output (and for fp32 summing) costs at these sizes."""
    return BOUND[layout.dtype]


@pytest.mark.parametrize("label", SHAPES)
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_layout_and_epilogue_is_right_in_emulation(template: str, label: str) -> None:
    """With the default setting; copies land as late as their waits allow, outputs lie between guards."""
    made, given = template_named(template), cases()[label]
    if not made.fits(given.program, given.hints):
        pytest.skip("does not fit")
    assert emulated_error(made, given, defaults(made, given)) < rounding(SHAPES[label])


@pytest.mark.slow
@pytest.mark.parametrize("label", ["fp32_tn", "bf16_nt_even", "long_k", "batched"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_choice_of_every_slot_is_right_in_emulation(template: str, label: str) -> None:
    made, given = template_named(template), cases()[label]
    if not made.fits(given.program, given.hints):
        pytest.skip("does not fit")
    for setting in settings(made, given):
        assert emulated_error(made, given, setting) < rounding(SHAPES[label]), setting


@pytest.mark.parametrize("template", TEMPLATES)
def test_defaults_compile_for_hopper_and_do_not_spill(template: str) -> None:
    """NVRTC and its own record of registers and local memory, with the widest copies and with single elements."""
    made = template_named(template)
    spilled = {}
    for label in ("fp32_nn", "bf16_linear", "bf16_deep", "bf16_odd"):
        given = large_cases()[label]
        if not made.fits(given.program, given.hints):
            continue
        setting = defaults(made, given)
        assert made.legal(given.program, setting, given.hints, H200)
        wide = {"A_VEC": 4, "B_VEC": 4, "OUT_VEC": 4}
        macros = dict.fromkeys(wide, 1) if label == "bf16_odd" else wide
        for name, found in compiled(made.render(given.program, setting, given.values), **macros).items():
            if found["spills"] or found["stack_bytes"]:
                spilled[f"{label} {name}"] = found
    assert not spilled
