"""The compile worker: runs a candidate's forward on fake tensors, so that its kernels compile and nothing launches.

Boxed, with no GPU. Triton kernels compile through a driver that only names the target; CUDA C++ goes through NVRTC into
CuPy's own cache. Whatever cannot be traced this way (data-dependent launches) is no error: it compiles at its first
call instead. Only a compiler's own error fails a candidate here.
"""

import contextlib
import importlib.util
import os
import socket
import sys
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .. import wire
from . import fake_cuda, resources, structure
from .buffers import dtype_of
from .child import describe, kind_of


def main(channel: socket.socket, params: dict[str, Any]) -> None:
    """Compiles one candidate and sends what came of it."""
    wire.send(channel, {"ready": True})
    body = wire.receive(channel).body
    trace = fake_cuda.Trace(params["arch"])
    try:
        fake_cuda.install(trace)
        _run_forward(Path(body["path"]), body["init"], body["workloads"], body["hidden"], trace)
        reply: dict[str, Any] = {"ok": True, "note": ""}
    except BaseException as error:  # noqa: BLE001 - whatever hostile code raises is reported, and only that
        refused = kind_of(error) in ("compile", "resource") and not isinstance(error, MemoryError)
        if refused or isinstance(error, fake_cuda.CompileFailed):
            reply = {"ok": False, "error": _with_cause(error)}
        else:
            reply = {"ok": True, "note": f"not compiled ahead: {describe(error)}"}
    reply["kernels"] = [resources.as_record(k) for k in trace.kernels.values()]
    reply["launches"] = trace.launch_records()[:256]
    wire.send(channel, reply)
    os._exit(0)


def _with_cause(error: BaseException) -> str:
    """The innermost error first: Triton wraps the decisive one."""
    texts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(texts) < 4:
        texts.append(describe(current))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n".join(reversed(texts))


def _run_forward(
    path: Path, init: Any, workloads: list[list[Any]], hidden: list[list[Any]], trace: fake_cuda.Trace
) -> None:
    """One call a workload, each on fresh instances: other shapes may need other kernels. Launches are the first's."""
    spec = importlib.util.spec_from_file_location("candidate", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)

    def call(inputs: list[Any]) -> None:
        model = module.ModelNew(*structure.unflatten(init, []))
        arguments = [_fake_input(entry) for entry in inputs]
        trace.watch([*arguments, *model.state_dict().values()])
        model(*arguments)
        trace.recording = False

    with FakeTensorMode(allow_non_fake_inputs=True), fake_cuda.OnCpu(trace), torch.no_grad():
        for inputs in workloads:
            call(inputs)
        for inputs in hidden:
            with contextlib.suppress(BaseException):  # the judge meets it, and tells no more than its class
                call(inputs)


def _fake_input(entry: Any) -> Any:
    """A workload's input entry as a fake tensor of its layout, or its literal."""
    if isinstance(entry, dict) and "shape" in entry:
        extent = 1 + sum((n - 1) * s for n, s in zip(entry["shape"], entry["strides"], strict=True) if n > 0)
        flat = torch.empty(max(extent, 1), dtype=dtype_of(entry["dtype"]))
        return flat.as_strided(entry["shape"], entry["strides"])
    if isinstance(entry, dict):
        return structure.unflatten(entry, [])
    return entry
