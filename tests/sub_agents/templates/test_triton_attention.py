"""Attention in Triton: interpreted on the CPU, and compiled for sm_90."""

import pytest
from programs.attention import ATTENTION, OTHER_SIZES
from programs.process import printed

pytestmark = pytest.mark.timeout(900)
HALVES = ("attended_halves", "attended_nearby", "attention_of_groups_expanded")


def test_attention_is_right_under_several_settings_and_sizes_in_the_interpreter() -> None:
    errors = printed("moving_run", "interpret", *ATTENTION)
    assert set(errors) == set(ATTENTION)
    assert all(len(each) >= (6 if name in OTHER_SIZES else 3) for name, each in errors.items())
    wrong = {
        f"{name} {label}": error
        for name, each in errors.items()
        for label, error in each.items()
        if not isinstance(error, float) or error > (1e-3 if name in HALVES else 1e-6)
    }
    assert not wrong


def test_attention_compiles_for_sm_90_almost_without_spilling() -> None:
    """Where fp32 is split in three, all registers are full; what spills then is a few words a thread."""
    facts = printed("moving_run", "compile", "attended_halves", "attention_call_causal", "attention_call_masked")
    assert len(facts) == 6
    assert not {label: each for label, each in facts.items() if isinstance(each, str)}
    most = {label: 128 if "tf32x3" in label else 0 for label in facts}
    assert not {label: each for label, each in facts.items() if any(spilled > most[label] for _, spilled, _ in each)}
