"""Ways to run the reference: eager, torch.compile in its modes, and what a problem ships."""

import os
import time
from pathlib import Path
from typing import Any

import torch

from .problem_module import ProblemModule

_MOST_COMPILED = 64
_THREADS = "WARPSMITH_AUTOTUNE_THREADS"
_MODES = {"compile": "default", "max-autotune": "max-autotune-no-cudagraphs", "cuda-graphs": "max-autotune"}


def use_cache(folder: Path, threads: int) -> None:
    """Points torch.compile's caches at a folder. Before the first compile of a process."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    os.environ[_THREADS] = str(threads)


def build(name: str, module: ProblemModule, model: torch.nn.Module) -> Any:
    """A callable with forward's arguments. Compiled ones compile at their first call."""
    if name == "eager":
        return model
    if name in _MODES:
        from torch._inductor import config as inductor  # opens the GPU, which the fork server must not

        # Modes and workloads live side by side: a reset would recompile the others inside a timed call.
        torch._dynamo.config.recompile_limit = _MOST_COMPILED
        if name != "compile":
            # A product's autotuning compiles dozens of kernels; one kernel compiles faster without a pool.
            inductor.compile_threads = int(os.environ.get(_THREADS, "1"))
        return torch.compile(model, mode=_MODES[name], dynamic=False)
    shipped = getattr(module.module, "baselines", None) or {}
    if name not in shipped:
        raise ValueError(f"no baseline {name!r}")
    return shipped[name](model) if isinstance(shipped[name], type) else shipped[name]


def first_call(call: Any, arguments: list[Any]) -> float:
    """Runs once, compiling if need be; seconds taken."""
    started = time.perf_counter()
    call(*arguments)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - started
