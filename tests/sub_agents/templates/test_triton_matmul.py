"""Triton matrix-product templates: interpreted on the CPU, compiled for sm_90, and on a GPU against float64."""

import functools
from typing import Any

import pytest
from programs.matmul_cases import LARGE, SHAPES, cases, large_cases
from programs.matmul_run import H200, defaults, settings, template_named, worst_error
from programs.process import printed

pytestmark = pytest.mark.timeout(1800)
TEMPLATES = ("triton_matmul", "triton_split_matmul", "triton_matvec", "triton_matmul_small")
# By operand type: what rounding the output (and for fp32 summing) costs at these sizes.
BOUND = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 6e-3}


@functools.cache
def found(action: str) -> dict[str, Any]:
    """By template: one process for all of them, since starting one and importing PyTorch takes seconds."""
    return printed("matmul_run", action, *TEMPLATES)


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_layout_and_epilogue_is_right_in_the_interpreter(template: str) -> None:
    """tf32x3 reads as exact fp32 there: of fp32's splits, only those of `triton_split_matmul` are checked here."""
    errors = found("interpret")[template]
    assert len(errors) >= 6
    bounds = {label: BOUND[layout.dtype] for label, layout in SHAPES.items()}
    wrong = {k: e for k, e in errors.items() if not isinstance(e, float) or e > bounds[k.split()[0]]}
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_defaults_compile_for_hopper_without_spills_and_use_its_instructions(template: str) -> None:
    """Large products run on warpgroup instructions; bf16 and split operands arrive by TMA."""
    kernels = found("compile")[template]
    assert kernels
    assert not {key: kernel for key, kernel in kernels.items() if kernel["spills"] or kernel["stack_bytes"]}
    assert not {key: kernel for key, kernel in kernels.items() if kernel["shared_bytes"] > H200.shared_bytes_per_block}
    main = {key: kernel for key, kernel in kernels.items() if key.split()[0] in ("fp32_nn", "bf16_nn")}
    if template in ("triton_matmul", "triton_split_matmul"):
        assert any(kernel["wgmma"] for kernel in main.values())
        assert all(kernel["mma"] == 0 for kernel in main.values())


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_pairwise_cover_of_legal_settings_compiles_for_hopper(template: str) -> None:
    """What `legal` lets through fits a block's shared memory."""
    kernels = found("cover")[template]
    assert kernels
    wrong = {k: kernel for k, kernel in kernels.items() if kernel["shared_bytes"] > H200.shared_bytes_per_block}
    assert not wrong


def test_a_default_is_legal_for_every_case() -> None:
    """Long fp32 products are left to the template that splits first, which is twice as fast."""
    made = {name: template_named(name) for name in TEMPLATES}
    for label, given in (cases() | large_cases()).items():
        legal = {
            name: template.legal(given.program, defaults(template, given), given.hints, H200)
            for name, template in made.items()
            if template.fits(given.program, given.hints)
        }
        if legal.get("triton_split_matmul") and label in LARGE:
            legal.pop("triton_matmul")
        assert legal
        assert all(legal.values()), (label, legal)


def test_a_search_over_large_products_spends_nothing_on_small_tiles_or_splits_of_k() -> None:
    template, given = template_named("triton_matmul"), large_cases()["bf16_linear"]
    best = defaults(template, given)
    assert template.legal(given.program, best, given.hints, H200)
    for worse in ({"split_k": 2}, {"tile_m": 32, "tile_n": 64, "num_warps": 4}, {"loads": "pointer"}):
        assert not template.legal(given.program, best | worse, given.hints, H200), worse


@pytest.mark.gpu
@pytest.mark.parametrize("label", LARGE)
@pytest.mark.parametrize("template", TEMPLATES)
def test_large_products_are_right_on_a_gpu(template: str, label: str) -> None:
    """Against float64: here the splits of fp32 show their real precision."""
    made, given = template_named(template), large_cases()[label]
    if made.fits(given.program, given.hints):
        assert worst_error(made, given, defaults(made, given), device="cuda") < BOUND[LARGE[label].dtype]


@pytest.mark.gpu
@pytest.mark.parametrize("label", SHAPES)
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_choice_is_right_on_a_gpu(template: str, label: str) -> None:
    made, given = template_named(template), cases()[label]
    if made.fits(given.program, given.hints):
        for setting in settings(made, given):
            assert worst_error(made, given, setting, device="cuda") < BOUND[SHAPES[label].dtype], setting
