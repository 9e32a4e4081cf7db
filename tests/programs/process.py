"""Programs of the tests in processes of their own: whether Triton interprets is settled when it is imported."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
LIMIT_S = 1700


def printed(module: str, action: str, *names: str) -> dict[str, Any]:
    """The JSON object that `python -m programs.MODULE ACTION NAME ...` prints; with `interpret` in the interpreter."""
    interpreted = {"TRITON_INTERPRET": "1"} if action == "interpret" else {}
    process = subprocess.run(
        [sys.executable, "-m", f"programs.{module}", action, *names],
        env={**os.environ, "PYTHONPATH": str(TESTS), "TRITON_DEFAULT_FP_FUSION": "1", **interpreted},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer
