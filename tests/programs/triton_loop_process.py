"""`programs.triton_loop_run` as tests call it: one process an action, since starting one takes seconds."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
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
