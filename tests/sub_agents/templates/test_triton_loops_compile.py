"""Triton templates for pointwise programs and reductions, compiled for sm_90: apart, so that both may run at once."""

import pytest
from programs.triton_loop_process import TEMPLATES, found

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("template", TEMPLATES)
def test_default_settings_compile_for_sm_90_without_spilling(template: str) -> None:
    facts = found("defaults")[template]
    assert facts
    assert not {case: each for case, each in facts.items() if isinstance(each, str)}
    # A few bytes of stack belong to the subroutine of exact division.
    assert not {case: each for case, each in facts.items() if any(spilled > 16 for _, spilled, _ in each)}


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_pairwise_cover_of_legal_settings_compiles_for_sm_90(template: str) -> None:
    facts = found("pairwise")[template]
    assert len(facts) > 20
    assert not {case: each for case, each in facts.items() if isinstance(each, str)}
