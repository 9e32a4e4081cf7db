"""Products of many small matrices in CUDA C++: emulated on the CPU, compiled for sm_90."""

from dataclasses import replace

import pytest
from programs.matmul_cases import Case, Layout, case
from programs.matmul_cuda import compiled, emulated_error
from programs.matmul_run import H200, defaults, settings, template_named

LAYOUTS = {
    "even": Layout(m=48, n=48, k=48, batch=(130,), epilogue="none"),
    "odd_nt": Layout(m=13, n=9, k=11, b="nk", batch=(131,)),
    "tn": Layout(m=12, n=20, k=7, a="km", batch=(4, 33)),
    "tt": Layout(m=5, n=16, k=12, a="km", b="nk", batch=(140,)),
    "one_right_factor": Layout(m=8, n=8, k=16, batch=(129,), b_batched=False, epilogue="none"),
    "free": Layout(m="s1", n="s2", k="s3", batch=("s0",)),
}
HINTS = {"s0": 128, "s1": 10, "s2": 6, "s3": 9}


def given(label: str) -> Case:
    return case(LAYOUTS[label], **(HINTS if label == "free" else {}))


@pytest.mark.parametrize("label", LAYOUTS)
def test_every_layout_is_right_in_emulation(label: str) -> None:
    made, each = template_named("cuda_matmul_small"), given(label)
    assert made.fits(each.program, each.hints)
    assert emulated_error(made, each, defaults(made, each)) < 1e-6


def test_a_call_with_other_sizes_is_right_up_to_those_that_go_to_the_tiled_kernel() -> None:
    made, each = template_named("cuda_matmul_small"), given("free")
    setting = defaults(made, each)
    for sizes in (
        {"s1": 33, "s2": 21, "s3": 40, "s0": 3},
        {"s1": 7, "s2": 100, "s3": 5, "s0": 2},
        {"s1": 90, "s2": 90, "s3": 4, "s0": 1},
    ):
        assert emulated_error(made, replace(each, hints=sizes), setting) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("label", ["odd_nt", "tn"])
def test_every_choice_of_every_slot_is_right_in_emulation(label: str) -> None:
    made, each = template_named("cuda_matmul_small"), given(label)
    for setting in settings(made, each):
        assert emulated_error(made, each, setting) < 1e-6, setting


def test_the_default_compiles_for_hopper_and_does_not_spill() -> None:
    made, each = template_named("cuda_matmul_small"), given("even")
    setting = defaults(made, each)
    assert made.legal(each.program, setting, each.hints, H200)
    source = made.render(each.program, setting, each.values)
    sizes = {"SIZE_M": 48, "SIZE_N": 48, "SIZE_K": 48}
    (found,) = compiled(source, 4, sizes=sizes).values()
    assert found["spills"] == 0
    assert found["registers"] <= 128
