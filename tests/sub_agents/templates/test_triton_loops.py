"""Triton templates for pointwise programs and reductions, interpreted on the CPU."""

import pytest
from programs.triton_loop_process import TEMPLATES, found

pytestmark = pytest.mark.timeout(900)


def bound(case: str) -> float:
    """The interpreter truncates to bfloat16 where hardware rounds, so half types get a whole unit."""
    return 1e-2 if "bf16" in case or case.startswith("layer_norm_very_long") or case.startswith("literals") else 2e-6


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_case_is_right_under_several_settings_in_the_interpreter(template: str) -> None:
    errors = found("interpret")[template]
    assert len(errors) >= 6
    wrong = {case: error for case, error in errors.items() if not isinstance(error, float) or error > bound(case)}
    assert not wrong
