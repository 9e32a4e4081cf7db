"""Triton templates for pointwise programs and reductions: interpreted on the CPU, and compiled for sm_90."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(900)
TESTS = Path(__file__).resolve().parents[2]
TEMPLATES = (
    "triton_pointwise",
    "triton_row_persistent",
    "triton_row_looped",
    "triton_split_reduction",
    "triton_row_lookback",
    "triton_scan",
)


@functools.cache
def found(action: str) -> dict[str, Any]:
    """What `programs.triton_loop_run` prints, by template: one process, since starting one takes seconds."""
    interpreted = {"TRITON_INTERPRET": "1"} if action == "interpret" else {}
    process = subprocess.run(
        [sys.executable, "-m", "programs.triton_loop_run", action, *TEMPLATES],
        env={**os.environ, "PYTHONPATH": str(TESTS), "TRITON_DEFAULT_FP_FUSION": "1", **interpreted},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer


def bound(case: str) -> float:
    """The interpreter truncates to bfloat16 where hardware rounds, so half types get a whole unit."""
    return 1e-2 if "bf16" in case or case.startswith("layer_norm_very_long") or case.startswith("literals") else 2e-6


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_case_is_right_under_several_settings_in_the_interpreter(template: str) -> None:
    errors = found("interpret")[template]
    assert len(errors) >= 6
    wrong = {case: error for case, error in errors.items() if not isinstance(error, float) or error > bound(case)}
    assert not wrong


@pytest.mark.parametrize("template", TEMPLATES)
def test_default_settings_compile_for_sm_90_without_spilling(template: str) -> None:
    facts = found("defaults")[template]
    assert facts
    assert not {case: each for case, each in facts.items() if isinstance(each, str)}
    # A few bytes of stack belong to the subroutine of exact division.
    assert not {case: each for case, each in facts.items() if any(spilled > 16 for _, spilled, _ in each)}


@pytest.mark.slow
@pytest.mark.parametrize("template", [name for name in TEMPLATES if name != "triton_scan"])
def test_a_pairwise_cover_of_legal_settings_compiles_for_sm_90(template: str) -> None:
    facts = found("pairwise")[template]
    assert len(facts) > 20
    assert not {case: each for case, each in facts.items() if isinstance(each, str)}
