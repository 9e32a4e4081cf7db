"""What a forked worker can be, and what the server imports so that forking is all it costs."""

import importlib
import os
import pkgutil
import platform
import socket
from pathlib import Path
from typing import Any

from . import interpreting


def preload() -> None:
    """Imports everything that workers need. Opens no GPU and runs no tensor operation."""
    import torch
    import triton
    import triton.language
    from triton.runtime import cache as triton_cache

    _optional("cupy")
    _optional("cuda.bindings.driver")
    _optional("torch._subclasses.fake_tensor")
    _optional("torch.utils._python_dispatch")
    _optional("triton.language.extra.libdevice")
    # Triton imports these when it first looks at an argument.
    _optional("triton.tools.tensor_descriptor")
    _optional("triton.experimental.gluon.nvidia.hopper")
    _optional("torch.export")
    _optional("torch._dynamo")
    # All of them: a boxed worker may not see the folder that they lie in.
    for found in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if found.name != "server":
            importlib.import_module(f"{__package__}.{found.name}")
    if hasattr(triton_cache, "triton_key"):
        triton_cache.triton_key()  # hashes the compiler's files: a quarter second, paid once here
    elif hasattr(triton.runtime, "jit") and hasattr(triton.runtime.jit, "triton_key"):
        triton.runtime.jit.triton_key()
    if os.environ.get("TRITON_INTERPRET") == "1":
        interpreting.round_to_nearest()
    elif torch.version.cuda is not None:
        _load_triton_driver()
    torch.set_grad_enabled(False)


def _load_triton_driver() -> None:
    """Triton's C glue, compiled at first use and then kept in this process: a second saved in every fork."""
    try:
        from triton.backends.compiler import GPUTarget
        from triton.backends.nvidia.compiler import CUDABackend
        from triton.backends.nvidia.driver import CudaUtils

        made = CudaUtils()
        if getattr(CudaUtils, "instance", None) is made:
            # One object for all, but its constructor would look for the compiled glue in every fork's own empty cache.
            CudaUtils.__init__ = lambda _self: None
        for arch in (80, 89, 90, 100):
            # Asks ptxas for its version, a tenth of a second in every fork otherwise.
            CUDABackend(GPUTarget("cuda", arch, 32)).hash()
    except (ImportError, OSError, RuntimeError):
        return  # no driver library on this machine


def versions() -> dict[str, Any]:
    """Versions of what is installed, for the device sheet."""
    found = {"python": platform.python_version()}
    for name in ("torch", "triton", "cupy"):
        module = _optional(name)
        if module is not None:
            found[name] = str(module.__version__)
    return {"versions": found, "interpreted": os.environ.get("TRITON_INTERPRET") == "1"}


def run(role: str, channel: socket.socket, params: dict[str, Any], server: socket.socket) -> None:
    """Runs a trusted role until its channel closes."""
    _settle()
    if role == "judge":
        from . import judge

        judge.main(channel, server, params)
    elif role == "problem":
        from . import problem_worker

        problem_worker.main(channel, params)
    elif role == "device":
        from . import device_probe

        device_probe.main(channel, params)
    else:
        raise ValueError(f"unknown role {role!r}")


def run_boxed(role: str, channel: socket.socket, params: dict[str, Any], notes: list[str]) -> None:
    """Runs a role that loads hostile code."""
    _settle()
    if role == "candidate":
        from . import child

        child.main(channel, params, notes)
    elif role == "compile":
        from . import compiler

        compiler.main(channel, params)
    elif role == "tool":
        from . import supervisor

        supervisor.main(channel, params, notes)
    else:
        raise ValueError(f"unknown role {role!r}")


def _settle() -> None:
    import torch

    cache = _optional("cupy.cuda._compiler_cache")
    folder = os.environ.get("CUPY_CACHE_DIR")
    if cache is not None and folder:
        # CuPy picked its cache folder when the server imported it.
        from cupy.cuda import compiler

        compiler._set_kernel_cache_backend(cache.DiskKernelCacheBackend(folder))

    # The parent's OpenMP pool does not survive a fork: a second thread would wait for it for ever.
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
