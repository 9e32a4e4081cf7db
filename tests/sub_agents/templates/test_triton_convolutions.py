"""Convolutions as products of weights and windows, in Triton: interpreted on the CPU, and compiled for sm_90."""

import pytest
from programs.process import printed

pytestmark = pytest.mark.timeout(900)
NAMES = (
    "convolved",
    "convolved_padded",
    "convolved_dilated",
    "convolved_groups",
    "convolved_1d",
    "convolved_3d",
    "convolved_halves",
    "convolved_to_its_end",
    "convolved_around",
    "convolved_same",
    "convolved_and_cut_far",
    "convolved_and_cut_before",
)
HALVES = ("convolved_halves", "convolved_around")


def test_every_convolution_is_right_under_several_settings_in_the_interpreter() -> None:
    errors = printed("moving_run", "interpret", *NAMES)
    assert set(errors) == set(NAMES)
    assert all(errors.values())
    wrong = {
        f"{name} {label}": error
        for name, each in errors.items()
        for label, error in each.items()
        if not isinstance(error, float) or error > (1e-3 if name in HALVES else 1e-6)
    }
    assert not wrong


def test_windows_compile_for_sm_90_without_spilling() -> None:
    facts = printed("moving_run", "compile", "convolved_padded", "convolved_halves")
    assert len(facts) == 4
    assert not {label: each for label, each in facts.items() if isinstance(each, str)}
    assert not {label: each for label, each in facts.items() if any(spilled > 16 for _, spilled, _ in each)}
