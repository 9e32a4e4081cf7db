"""CUDA matrix-product templates: emulated on the CPU, compiled for sm_90, and on a GPU against float64."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from programs.matmul_cases import LARGE, SHAPES, Case, Layout, cases, large_cases
from programs.matmul_cuda import compiled, emulated_error
from programs.matmul_run import H200, called_with, defaults, settings, template_named, worst_error

TEMPLATES = ("cuda_matmul", "cuda_matmul_hopper", "cuda_matvec")
BOUND = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 6e-3}


def fitting(labels: Iterable[str], given: dict[str, Case]) -> list[tuple[str, str]]:
    """Templates with the cases that they take."""
    pairs = [(name, label) for name in TEMPLATES for label in labels if not label.startswith("many")]
    return [(n, label) for n, label in pairs if template_named(n).fits(given[label].program, given[label].hints)]


QUICK = ("gated_bf16", "fp32_nt_odd", "fp32_tn", "bf16_tn", "batched", "symbolic", "two_rows_bf16", "symbolic_few_rows")
"""Together every layout, epilogue and kind of size; each case costs a second of g++."""


def emulated_cases() -> list[Any]:
    marks = {True: (), False: (pytest.mark.slow,)}
    return [pytest.param(name, label, marks=marks[label in QUICK]) for name, label in fitting(SHAPES, cases())]


def rounding(layout: Layout) -> float:
    """What rounding the output (and for fp32 summing) costs at these sizes."""
    return BOUND[layout.dtype]


@pytest.mark.parametrize(("template", "label"), emulated_cases())
def test_every_layout_and_epilogue_is_right_in_emulation(template: str, label: str) -> None:
    """With the default setting; copies land as late as their waits allow, outputs lie between guards."""
    made, given = template_named(template), cases()[label]
    setting = defaults(made, given)
    for hints in called_with(given):
        assert emulated_error(made, replace(given, hints=hints), setting) < rounding(SHAPES[label])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "label"), fitting(["fp32_tn", "bf16_nt_even", "long_k", "batched", "two_rows_bf16"], cases())
)
def test_every_choice_of_every_slot_is_right_in_emulation(template: str, label: str) -> None:
    made, given = template_named(template), cases()[label]
    for setting in settings(made, given, turn=list(SHAPES).index(label)):
        assert emulated_error(made, given, setting) < rounding(SHAPES[label]), setting


@pytest.mark.parametrize("template", TEMPLATES)
def test_defaults_compile_for_hopper_and_do_not_spill(template: str) -> None:
    """NVRTC and its own record of registers and local memory, with the widest copies and with single elements."""
    made = template_named(template)
    spilled = {}
    for label in ("fp32_nn", "bf16_linear", "bf16_deep", "bf16_odd", "bf16_vector"):
        given = large_cases()[label]
        if not made.fits(given.program, given.hints):
            continue
        setting = defaults(made, given)
        assert made.legal(given.program, setting, given.hints, H200)
        width = 1 if label == "bf16_odd" else 4
        for name, found in compiled(made.render(given.program, setting, given.values), width).items():
            if found["spills"] or found["stack_bytes"]:
                spilled[f"{label} {name}"] = found
    assert not spilled


def test_hopper_products_are_warpgroup_instructions_and_stay_asynchronous() -> None:
    """A compiler that has to wait after each instruction puts as many waits as products: there are two a loop."""
    made = template_named("cuda_matmul_hopper")
    for label, products in (("fp32_nn", 12), ("bf16_nn", 4), ("bf16_tn", 4)):
        given = large_cases()[label]
        source = made.render(given.program, defaults(made, given), given.values)
        found = compiled(source, 4, waits=True)["product_kernel"]
        assert found["wgmma"] == products
        assert found["waits"] <= 2


@pytest.mark.gpu
@pytest.mark.parametrize(("template", "label"), fitting(LARGE, large_cases()))
def test_large_products_are_right_on_a_gpu(template: str, label: str) -> None:
    """Against float64; fp32 no worse than a few times what PyTorch's own fp32 product errs."""
    made, given = template_named(template), large_cases()[label]
    assert worst_error(made, given, defaults(made, given), device="cuda") < rounding(LARGE[label])


@pytest.mark.gpu
@pytest.mark.parametrize(("template", "label"), fitting(SHAPES, cases()))
def test_every_choice_is_right_on_a_gpu(template: str, label: str) -> None:
    made, given = template_named(template), cases()[label]
    for setting in settings(made, given):
        assert worst_error(made, given, setting, device="cuda") < rounding(SHAPES[label]), setting
