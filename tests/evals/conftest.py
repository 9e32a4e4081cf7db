"""Results as runs would hand them back, for tests that need no GPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warpsmith.state.device import DeviceSheet
from warpsmith.state.trajectory import Result

DEVICE = DeviceSheet(
    name="Test GPU",
    arch="sm_90",
    sm_count=132,
    l2_bytes=60_000_000,
    shared_bytes_per_block=232_448,
    shared_bytes_per_sm=233_472,
    memory_bytes=140_000_000_000,
    peak_bytes_per_s=4.8e12,
    copy_bytes_per_s=4.3e12,
    versions={"torch": "2.11.0", "triton": "3.6.0"},
)


@pytest.fixture
def make_result() -> Callable[..., Result]:
    """Builds a verified result of one problem; fields can be overridden."""

    def make(path: Path, **fields: Any) -> Result:
        speedup = fields.get("speedup", 1.5)
        verified = {
            "problem": path.stem,
            "problem_id": "id",
            "problem_path": str(path),
            "run_dir": "runs/x",
            "outcome": "verified",
            "language": "triton",
            "speedup": speedup,
            "speedup_over": {"best": speedup, "eager": 3.0, "compile": 1.6},
            "verdict": "win",
            "ms": 0.2,
            "baseline_name": "compile",
            "baseline_ms": 0.3,
            "eager_ms": 0.6,
            "compile_ms": 0.32,
            "best_ms_by_language": {"triton": 0.2, "cuda": 0.25},
            "sol_fraction": 0.8,
            "custom_share": 1.0,
            "tried": 12,
            "seconds": 8.0,
            "device": DEVICE,
        }
        return Result.model_validate({**verified, **fields})

    return make
