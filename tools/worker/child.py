"""The candidate's side of an evaluation. Runs boxed, beside hostile code: nothing that it says is a verdict.

The judge asks, one message at a time: load the file, construct an instance and take weights, map the buffers of a
workload, run one call. Values come and go through the judge's buffers only; the answers carry layout, event times and
exception texts, and the judge treats all of it as claims.
"""

import importlib.util
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from ...state.problem import TensorSpec
from .. import wire
from . import buffers, precision_flags, structure
from .canary import Canary
from .clock import Stopwatch

_MAX_TEXT = 6000
_NO_HOST_MEMORY = "DefaultCPUAllocator: can't allocate memory"
"""PyTorch has a class of its own for a GPU's memory only."""


class Child:
    """One candidate's process: the loaded module, its instances, and the mapped workload."""

    def __init__(self, channel: socket.socket, device: torch.device, stopwatch: Stopwatch) -> None:
        self.channel = channel
        self.device = device
        self.module: Any = None
        self.instances: dict[str, torch.nn.Module] = {}
        self.sets: list[list[Any]] = []
        """The workload's arguments, once for each set of buffers."""
        self.mapped: list[buffers.Buffer] = []
        self.stopwatch = stopwatch

    def serve(self) -> None:
        """Answers until the judge hangs up."""
        handlers = {
            "load": self.load,
            "construct": self.construct,
            "weights": self.take_weights,
            "workload": self.map_workload,
            "call": self.call,
            "burst": self.burst,
            "trace": self.trace,
        }
        while True:
            message = wire.receive(self.channel)
            handler = handlers.get(message.body["op"])
            if handler is None:
                return
            try:
                reply = handler(message.body, message.fds)
            except BaseException as error:  # noqa: BLE001 - whatever hostile code raises is reported, and only that
                reply = {"error": describe(error), "kind": kind_of(error)}
            wire.send(self.channel, {"id": message.body.get("id"), **reply})

    def load(self, body: dict[str, Any], _fds: list[int]) -> dict[str, Any]:
        """Imports the candidate from a real file, as Triton needs it, under the flags that the reference runs under."""
        if "flags" in body:
            precision_flags.set_to(body["flags"])
        path = Path(body["path"])
        spec = importlib.util.spec_from_file_location("candidate", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot import {path.name}")
        module = importlib.util.module_from_spec(spec)
        sys.modules["candidate"] = module
        spec.loader.exec_module(module)
        if not callable(getattr(module, "ModelNew", None)):
            raise AttributeError("the file defines no class ModelNew")
        self.module = module
        return {"ok": True}

    def construct(self, body: dict[str, Any], _fds: list[int]) -> dict[str, Any]:
        """Makes an instance under a seed and describes its parameters and buffers, with fingerprints."""
        arguments = structure.unflatten(body["init"], [])
        started = time.perf_counter()
        torch.manual_seed(int(body["rng_seed"]))
        with torch.device(self.device):
            model = self.module.ModelNew(*arguments)
        model = model.to(self.device)
        model.train(bool(body["training"]))
        self.stopwatch.synchronize()
        self.instances[body["instance"]] = model
        state = model.state_dict() if isinstance(model, torch.nn.Module) else {}
        described = [describe_weight(name, tensor) for name, tensor in state.items()]
        return {"state": described, "setup_ms": (time.perf_counter() - started) * 1e3}

    def take_weights(self, body: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Loads the judge's weights, by the names that the judge chose, through load_state_dict."""
        layout = buffers.Layout.from_json(body["layout"])
        buffer = buffers.open_buffer(fds[0], layout.size_bytes, self.device)
        model = self.instances[body["instance"]]
        started = time.perf_counter()
        weights = dict(zip(body["names"], layout.views(buffer), strict=True))
        model.load_state_dict(weights, strict=False)
        self.stopwatch.synchronize()
        os.close(fds[0])
        if isinstance(buffer, buffers.DeviceBuffer):
            weights.clear()
            buffer.release()
        return {"ok": True, "setup_ms": (time.perf_counter() - started) * 1e3}

    def map_workload(self, body: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Maps sets of inputs and outputs."""
        layout = buffers.Layout.from_json(body["inputs"])
        self.output_layout = buffers.Layout.from_json(body["outputs"])
        self.sets = []
        for buffer in self.mapped:
            if isinstance(buffer, buffers.DeviceBuffer):
                buffer.release()
        count = int(body["sets"])
        source = buffers.open_buffer(fds[0], layout.size_bytes * count, self.device)
        self.sink = buffers.open_buffer(fds[1], self.output_layout.size_bytes * count, self.device)
        self.mapped = [source, self.sink]
        for index in range(count):
            tensors = layout.views(source, index * layout.size_bytes)
            self.sets.append(structure.unflatten(body["arguments"], tensors))
        for descriptor in fds:
            os.close(descriptor)
        return {"ok": True}

    def call(self, body: dict[str, Any], _fds: list[int]) -> dict[str, Any]:
        """Runs forward once on one set, then copies its output to the judge's buffer."""
        model, index = self.instances[body["instance"]], int(body["index"])
        canary = Canary(self.device) if body.get("canary") else None
        host_started = time.perf_counter()
        reading = self.stopwatch.time(model, self.sets[index], float(body["lead_ms"]))
        delivered = self._deliver(reading.result, index)
        self.stopwatch.synchronize()
        return {
            "ms": reading.ms,
            "host_ms": reading.host_ms,
            "late": reading.late,
            "total_ms": (time.perf_counter() - host_started) * 1e3,
            "overrun": canary.overrun(reading.result) if canary else "",
            **delivered,
        }

    def burst(self, body: dict[str, Any], _fds: list[int]) -> dict[str, Any]:
        """Runs forward on every set in turn, without waiting in between.

        Each output is copied before the next call: a candidate may keep its output buffer and write all of it anew.
        """
        model = self.instances[body["instance"]]
        delivered: dict[str, Any] = {}
        for index, arguments in enumerate(self.sets):
            delivered = self._deliver(model(*arguments), index)
        self.stopwatch.synchronize()
        return delivered

    def trace(self, body: dict[str, Any], _fds: list[int]) -> dict[str, Any]:
        """GPU time of one call by kernel name, in ms, as the profiler tells it."""
        from torch.profiler import ProfilerActivity, profile

        model = self.instances[body["instance"]]
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            model(*self.sets[0])
            self.stopwatch.synchronize()
        kernels: dict[str, float] = {}
        for event in profiler.events():
            microseconds = float(getattr(event, "self_device_time_total", 0.0))
            if microseconds > 0:
                kernels[event.name] = kernels.get(event.name, 0.0) + microseconds / 1e3
        return {"kernels": kernels}

    def _deliver(self, result: Any, index: int) -> dict[str, Any]:
        description, tensors = structure.flatten(result)
        specs = [{**buffers.spec_of(t).model_dump(), "type": type_name(t), "device": t.device.type} for t in tensors]
        wanted = self.output_layout
        fits = [(t.shape, buffers.dtype_name(t.dtype)) for t in tensors] == [
            (torch.Size(s.shape), s.dtype) for s in wanted.specs
        ]
        if fits:
            for tensor, target in zip(tensors, wanted.views(self.sink, index * wanted.size_bytes), strict=True):
                target.copy_(tensor)
        return {"structure": description, "specs": specs}


def describe_weight(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    """Name, layout and a fingerprint of values that survives a change of name: sum, sum of magnitudes, ends."""
    flat = tensor.detach().reshape(-1)
    spec = TensorSpec(shape=tuple(tensor.shape), dtype=buffers.dtype_name(tensor.dtype), strides=())
    if flat.numel() == 0:
        return {"name": name, **spec.model_dump(), "fingerprint": []}
    wide = flat.double()
    ends = torch.stack([wide.sum(), wide.abs().sum(), wide[0], wide[-1], wide[flat.numel() // 2]])
    return {"name": name, **spec.model_dump(), "fingerprint": ends.tolist()}


def type_name(tensor: torch.Tensor) -> str:
    """`Tensor` and `Parameter` for exactly those; a subclass may call itself so, and compute when it is looked at."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return type(tensor).__name__
    return f"subclass {type(tensor).__qualname__}"


def describe(error: BaseException) -> str:
    """The exception with the part of its traceback that lies in the candidate, bounded."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith("candidate.py")]
    place = "".join(f"\n  line {f.lineno}: {f.line}" for f in frames[-3:])
    text = f"{type(error).__name__}: {error}{place}"
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT // 2]}\n...\n{text[-_MAX_TEXT // 2 :]}"


def kind_of(error: BaseException) -> str:
    """`resource` for memory and launch resources, `compile` for compilers' own errors, else `runtime`."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if names & {"OutOfMemoryError", "OutOfResources", "MemoryError"} or _NO_HOST_MEMORY in str(error):
        return "resource"
    if names & {"CompilationError", "CompileException", "NVRTCError", "SyntaxError", "CompileTimeAssertionFailure"}:
        return "compile"
    return "runtime"


def load_library_kernels(device: torch.device, stopwatch: Stopwatch) -> None:
    """Runs what every candidate will be asked for once: a kernel's first call in a process loads it, for milliseconds.

    The process may wait for its candidate, so that this costs nobody anything.
    """
    torch.manual_seed(0)
    wide = torch.randn(64, device=device)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        describe_weight("", wide.to(dtype))
    bytes_of = torch.full((64,), 1, dtype=torch.uint8, device=device)
    bool((bytes_of != 1).any())
    stopwatch.time(lambda: None, [], 0.1)


def main(channel: socket.socket, params: dict[str, Any], notes: list[str]) -> None:
    """Entry point of the boxed process: waits for a word before it touches the GPU, where others may be timed."""
    device = torch.device(params["device"])
    try:
        wire.receive(channel)
    except wire.WireError:
        return  # not wanted any more
    try:
        if device.type == "cuda":
            torch.cuda.set_device(device)
            torch.zeros(1, device=device)
            torch.cuda.synchronize()
        stopwatch = Stopwatch(device, str(params.get("blocker", "")))
        load_library_kernels(device, stopwatch)
    except RuntimeError as error:
        wire.send(channel, {"fault": f"no GPU in the sandbox: {error}"})
        return
    if stopwatch.weakness:
        notes = [*notes, f"lead: holds one block only ({stopwatch.weakness})"]
    # A copy of this process answers nobody: what was forked hears no question and sends no reply.
    os.register_at_fork(after_in_child=channel.close)
    wire.send(channel, {"ready": True, "notes": notes})
    try:
        Child(channel, device, stopwatch).serve()
    except wire.WireError:
        return  # the judge hung up: the evaluation is over
