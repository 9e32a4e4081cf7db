"""How a harness judges on this machine."""

import os
from pathlib import Path

from pydantic import Field

from ..state.base import Record
from ..state.evaluation import Tier
from .compile_pool import COMPILE_S

BASELINE_NAMES = ("eager", "compile", "max-autotune", "cuda-graphs")


class HarnessSettings(Record):
    """How to judge on this machine."""

    work_dir: Path | None = None
    """Scratch space and caches; a temporary folder where None."""
    dry_run: bool | None = None
    """None: a dry run exactly where there is no GPU."""
    require_gpu: bool = False
    arch: str = "sm_90"
    """What a dry run compiles for."""
    gpu: int = 0
    baseline_file: Path | None = None
    """Cached baselines: read, and extended by what is measured."""
    baseline_names: tuple[str, ...] = BASELINE_NAMES
    compile_workers: int = Field(default_factory=lambda: max(1, min(8, (os.cpu_count() or 2) // 2)))
    max_memory_bytes: int = 24 << 30
    """Host memory that one candidate may use."""
    namespaces: bool = True
    call_limit_s: float | None = None
    """The longest that one call of a candidate may take; None: 10 s where it was compiled ahead, 60 s elsewhere."""
    racing: bool = True
    """Whether a candidate far behind the best of this harness is given up; off where each is judged for itself."""
    compile_limit_s: float = COMPILE_S
    """The longest that compiling one candidate ahead may take."""
    start_timeout_s: float = 120.0
    evidence_tiers: tuple[Tier, ...] = ("full", "record")
    """Tiers at which kernels that pass are also looked at from outside (sanitizers, fresh processes, profiler): seconds
    each."""
