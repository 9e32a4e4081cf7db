"""Holds for every test: the package under test is this checkout, and tests for a GPU are skipped without one."""

import gc
import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """An editable install that points at another checkout would test the wrong code."""
    spec = importlib.util.find_spec("warpsmith")
    origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
    if origin != ROOT / "__init__.py":
        raise pytest.UsageError(
            f"warpsmith is {origin}, not this checkout ({ROOT}): run `make test`, or pip install -e ."
        )


def has_gpu() -> bool:
    program = shutil.which("nvidia-smi")
    return program is not None and subprocess.run([program, "-L"], capture_output=True, check=False).returncode == 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_collection_finish() -> None:
    """What importing PyTorch and the tests made stays: passing over it again and again took a third of a lowering."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_unconfigure() -> None:
    gc.unfreeze()
