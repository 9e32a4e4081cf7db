"""Triton matrix-product templates: interpreted on the CPU, compiled for sm_90, and on a GPU against float64."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
TEMPLATES = ("triton_matmul", "triton_split_matmul", "triton_matvec")
# By operand type: what rounding the output (and for fp32 summing) costs at these sizes.
BOUND = {"fp32": 1e-6, "fp16": 1e-3, "bf16": 6e-3}


def run(arguments: list[str], **environment: str) -> dict[str, object]:
    """The JSON that `programs.matmul_run` prints: it needs a process that imports triton its way."""
    process = subprocess.run(
        [sys.executable, "-m", "programs.matmul_run", *arguments],
        env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    answer: dict[str, object] = json.loads(process.stdout)
    return answer


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_layout_and_epilogue_is_right_in_the_interpreter(template: str) -> None:
    """fp32 splits read as exact products there: this checks indices, masks and epilogues, not their precision."""
    errors = run(["interpret", template], TRITON_INTERPRET="1")
    assert len(errors) > 10
    wrong = {key: error for key, error in errors.items() if not isinstance(error, float) or error > bound(key)}
    assert not wrong


def bound(key: str) -> float:
    """By the case's name, which starts with its operand type; batched cases are bf16 where they are transposed."""
    label = key.split()[1]
    return BOUND.get(label[:4], BOUND["bf16" if label == "batched_transposed" else "fp32"])
