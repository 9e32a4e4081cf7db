"""The compile worker: runs a candidate's forward on fake tensors, so that its kernels compile and nothing launches.

Boxed, with no GPU. Triton kernels compile through a driver that only names the target; CUDA C++ goes through NVRTC into
CuPy's own cache. Whatever cannot be traced this way (data-dependent launches) is no error: it compiles at its first
call instead. Only a compiler's own error fails a candidate here.
"""

import importlib.util
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .. import wire
from . import fake_cuda, library_calls, resources, structure
from .buffers import dtype_of
from .child import describe, kind_of


def main(channel: socket.socket, params: dict[str, Any]) -> None:
    """Compiles one candidate and sends what came of it."""
    wire.send(channel, {"ready": True})
    body = wire.receive(channel).body
    file = Path(body["path"])

    def compiled(inputs: list[Any]) -> dict[str, Any]:
        return _compiled(file, body["init"], inputs, fake_cuda.Trace(params["arch"]))

    first, *others = body["workloads"]
    told = [Aside(compiled, inputs) for inputs in others]
    hidden = [Aside(compiled, inputs) for inputs in body["hidden"]]
    replies = [compiled(first), *(other.reply() for other in told)]
    for other in hidden:
        other.reply()  # the judge meets what fails there, and tells no more than its class
    wire.send(channel, _merged(replies))
    os._exit(0)


class Aside:
    """A workload compiled by a copy of this process: other shapes may need other kernels, and each takes a while."""

    def __init__(self, compiled: Callable[[list[Any]], dict[str, Any]], inputs: list[Any]) -> None:
        self._read, write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                with os.fdopen(write, "w") as stream:
                    json.dump(compiled(inputs), stream)
            finally:
                os._exit(0)
        os.close(write)

    def reply(self) -> dict[str, Any]:
        """What came of it, once it has ended. A copy that was lost says nothing: its kernels compile when they run."""
        with os.fdopen(self._read) as stream:
            text = stream.read()
        os.waitpid(self._pid, 0)
        try:
            return dict(json.loads(text))
        except ValueError:
            return {
                "ok": True,
                "note": "not compiled ahead: the process ended",
                "kernels": [],
                "launches": [],
                "library": [],
            }


def _merged(replies: list[dict[str, Any]]) -> dict[str, Any]:
    """The first failure, or the first note; everybody's kernels, launches and library calls of the first workload."""
    failed = next((reply for reply in replies if not reply["ok"]), None)
    noted = next((reply for reply in replies if reply.get("note")), replies[0])
    kernels = {kernel["name"]: kernel for reply in reversed(replies) for kernel in reply["kernels"]}
    first = {name: replies[0][name] for name in ("launches", "library")}
    return {**(failed or noted), "kernels": list(kernels.values()), **first}


def _compiled(path: Path, init: Any, inputs: list[Any], trace: fake_cuda.Trace) -> dict[str, Any]:
    """One call on fake tensors: `ok`, what went wrong, kernels and launches."""
    try:
        fake_cuda.install(trace)
        _run_forward(path, init, inputs, trace)
        reply: dict[str, Any] = {"ok": True, "note": ""}
    except BaseException as error:  # noqa: BLE001 - whatever hostile code raises is reported, and only that
        refused = kind_of(error) in ("compile", "resource") and not isinstance(error, MemoryError)
        if refused or isinstance(error, fake_cuda.CompileFailed):
            reply = {"ok": False, "error": _with_cause(error)}
        else:
            reply = {"ok": True, "note": f"not compiled ahead: {describe(error)}"}
    reply["kernels"] = [resources.as_record(k) for k in trace.kernels.values()]
    reply["launches"] = trace.launch_records()[:256]
    reply["library"] = trace.library[:256]
    return reply


def _with_cause(error: BaseException) -> str:
    """The innermost error first: Triton wraps the decisive one."""
    texts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(texts) < 4:
        texts.append(describe(current))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n".join(reversed(texts))


def _run_forward(path: Path, init: Any, inputs: list[Any], trace: fake_cuda.Trace) -> None:
    """Imports the candidate and calls it once."""
    spec = importlib.util.spec_from_file_location("candidate", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    with FakeTensorMode(allow_non_fake_inputs=True), fake_cuda.OnCpu(trace), torch.no_grad():
        model = module.ModelNew(*structure.unflatten(init, []))
        arguments = [_fake_input(entry) for entry in inputs]
        trace.watch([*arguments, *model.state_dict().values()])
        with library_calls.LibraryCalls() as library:
            trace.library = library.calls
            model(*arguments)


def _fake_input(entry: Any) -> Any:
    """A workload's input entry as a fake tensor of its layout, or its literal."""
    if isinstance(entry, dict) and "shape" in entry:
        extent = 1 + sum((n - 1) * s for n, s in zip(entry["shape"], entry["strides"], strict=True) if n > 0)
        flat = torch.empty(max(extent, 1), dtype=dtype_of(entry["dtype"]))
        return flat.as_strided(entry["shape"], entry["strides"])
    if isinstance(entry, dict):
        return structure.unflatten(entry, [])
    return entry
