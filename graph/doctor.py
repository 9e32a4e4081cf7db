"""Checks of the machine that need no harness, and what the harness says about the device."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from ..state.errors import WarpsmithError


class Finding(NamedTuple):
    """One line of the doctor's. `needed` ones decide the exit code."""

    name: str
    fine: bool
    found: str
    advice: str = ""
    needed: bool = False

    @property
    def mark(self) -> str:
        return "ok  " if self.fine else "FAIL" if self.needed else "-   "


def checks(out: Path) -> list[Finding]:
    """Everything that can be seen without starting a worker."""
    has_gpu = shutil.which("nvidia-smi") is not None
    return [
        Finding("python", sys.version_info >= (3, 11), sys.version.split()[0], needed=True),
        driver(),
        *(package(name, needed, advice) for name, needed, advice in PACKAGES),
        cupy(has_gpu),
        module(
            "nvrtc", ("nvidia.cu13", "nvidia.cuda_nvrtc"), "CUDA kernels cannot be compiled: install the extra cuda13"
        ),
        program("nvcc", "optional: only load_inline candidates need it"),
        program("ncu", "optional: without Nsight Compute there are no hardware counters"),
        program("compute-sanitizer", "optional: without it memory errors are found by guards alone"),
        namespaces(),
        disk(out),
        interpreter(),
    ]


PACKAGES = (
    ("torch", True, "install the package again"),
    ("triton", True, "install the package again; Triton runs on Linux"),
    ("langgraph", True, "install the package again"),
)


def driver() -> Finding:
    """The GPU as its driver reports it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Finding("gpu", False, "no nvidia-smi: runs are dry runs", "on a GPU machine install the NVIDIA driver")
    query = [tool, "--query-gpu=name,driver_version,memory.used", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return Finding("gpu", False, "nvidia-smi does not answer", "restart the driver or the machine", needed=True)
    if answer.returncode:
        return Finding("gpu", False, answer.stdout.strip() or answer.stderr.strip(), "check the driver", needed=True)
    return Finding("gpu", True, "; ".join(answer.stdout.strip().splitlines()))


def package(name: str, needed: bool, advice: str) -> Finding:
    """A distribution's version, without importing it."""
    try:
        return Finding(name, True, importlib.metadata.version(name), needed=needed)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, "not installed", advice, needed)


def cupy(has_gpu: bool) -> Finding:
    """cupy comes under a name that says its CUDA version."""
    names = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
    for name in names:
        found = package(name, False, "")
        if found.fine:
            return Finding("cupy", True, f"{found.found} ({name})")
    return Finding("cupy", False, "not installed", "CUDA kernels need it: install the extra cuda13 or cuda12", has_gpu)


def module(name: str, modules: tuple[str, ...], advice: str) -> Finding:
    """Whether one of several modules can be found, without importing it."""
    for candidate in modules:
        try:
            if importlib.util.find_spec(candidate) is not None:
                return Finding(name, True, candidate)
        except ModuleNotFoundError:
            continue
    return Finding(name, False, "not found", advice)


def program(name: str, advice: str) -> Finding:
    path = shutil.which(name)
    return Finding(name, True, path) if path else Finding(name, False, "not on PATH", advice)


def namespaces() -> Finding:
    """Whether candidates can be cut off from network and processes without root."""
    tool = shutil.which("unshare")
    if tool is None:
        return Finding("namespaces", False, "no unshare", "install util-linux: candidates run less isolated")
    command, advice = [tool, "-U", "-r", "-n", "true"], "candidates run less isolated: allow user namespaces"
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return Finding("namespaces", False, "unshare does not end", advice)
    if answer.returncode == 0:
        return Finding("namespaces", True, "user and network")
    return Finding("namespaces", False, answer.stderr.strip(), advice)


def disk(out: Path) -> Finding:
    """Free space and the right to write where runs go."""
    there = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free_gb = shutil.disk_usage(there).free / 1e9
    if not os.access(there, os.W_OK):
        return Finding("disk", False, f"{there} cannot be written", "choose another --out", needed=True)
    return Finding(
        "disk", free_gb > 1, f"{free_gb:.1f} GB free at {there}", "" if free_gb > 1 else "free some", needed=True
    )


def interpreter() -> Finding:
    """TRITON_INTERPRET in the environment would run kernels in Python and time nonsense."""
    value = os.environ.get("TRITON_INTERPRET")
    if not value or value == "0":
        return Finding("TRITON_INTERPRET", True, "not set", needed=True)
    return Finding(
        "TRITON_INTERPRET", False, f"is {value}", "unset it: dry runs set it where they need it", needed=True
    )


def sheet_checks(settings: dict[str, Any]) -> list[Finding]:
    """The device as the harness sees it, and its sandbox."""
    from .services import open_harness_for
    from .settings import make_context

    try:
        with closing(open_harness_for(make_context(settings))) as harness:
            sheet = harness.device()
    except WarpsmithError as error:
        return [Finding("harness", False, str(error), "see the lines above", needed=True)]
    kind = "dry run for" if sheet.simulated else "measures on"
    found = [
        Finding("harness", True, f"{kind} {sheet.name}, {sheet.arch}, {sheet.sm_count} multiprocessors", needed=True),
        Finding("rates", True, f"{sheet.copy_bytes_per_s / 1e12:.2f} TB/s copy, {sheet.l2_bytes >> 20} MiB L2"),
    ]
    return found + [Finding(f"sandbox {layer}", state == "on", state) for layer, state in sorted(sheet.sandbox.items())]
