"""A candidate run by a program of its own, for tools that must be the parent of what they look at.

    python -P -m warpsmith.tools.worker.standalone '{"job": FOLDER, "scratch": FOLDER, ...}'

Started by `supervisor` inside a box, under a profiler, a sanitizer or nothing. It opens the GPU and reads the inputs
that the judge left in the job's folder, becomes an unprivileged user, and only then loads the candidate. What it
prints, leaves behind or exits with is a claim: verdicts come from the tool's own report and the judge's comparison.
"""

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from . import buffers, linux, precision_flags, sandbox, structure

OUTPUTS = "outputs.bin"
_FLUSH_FACTOR = 3
_MOST_WAIT_S = 60.0
_MOST_PROCESSES = 4096
"""Threads count, a tool's in this process among them."""


class Capture:
    """The profiler's switch, bound before the candidate loads."""

    def __init__(self, device: torch.device) -> None:
        self._gpu = device.type == "cuda"
        self._start: Callable[[], Any] = lambda: None
        self._stop: Callable[[], Any] = lambda: None
        self._synchronize: Callable[[], Any] = lambda: None
        self._cold: torch.Tensor | None = None
        if self._gpu:
            runtime = torch.cuda.cudart()
            self._start, self._stop = runtime.cudaProfilerStart, runtime.cudaProfilerStop
            self._synchronize = torch.cuda.synchronize
            l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
            self._cold = torch.zeros(_FLUSH_FACTOR * l2_bytes // 4, dtype=torch.int32, device=device)

    def call(self, model: Any, arguments: list[Any]) -> Any:
        """One call with L2 emptied before it and nothing else captured."""
        if self._cold is not None:
            self._cold.max()
        self._synchronize()
        self._start()
        try:
            result = model(*arguments)
            self._synchronize()
        finally:
            self._stop()
        return result


def tensors_from(path: Path, layout: dict[str, Any], device: torch.device) -> list[torch.Tensor]:
    """Tensors over one flat copy of a file on the device: copies are no kernels, and every byte counts as written."""
    placed = buffers.Layout.from_json(layout)
    raw = torch.from_file(str(path), shared=False, size=placed.size_bytes, dtype=torch.uint8)
    return placed.views(SimpleNamespace(bytes=raw.to(device, copy=True)))


def load(path: Path) -> ModuleType:
    """The candidate as a module."""
    spec = importlib.util.spec_from_file_location("candidate", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    return module


def construct(module: ModuleType, job: dict[str, Any], weights: list[torch.Tensor], device: torch.device) -> Any:
    """An instance with the weights that fit it by name and shape."""
    torch.manual_seed(int(job["rng_seed"]))
    with torch.device(device):
        model = module.ModelNew(*structure.unflatten(job["init"], []))
    model = model.to(device)
    model.train(bool(job["training"]))
    own = model.state_dict()
    given = dict(zip(job["weight_names"], weights, strict=True))
    fitting = {n: t for n, t in given.items() if n in own and own[n].shape == t.shape and own[n].dtype == t.dtype}
    if fitting:
        model.load_state_dict(fitting, strict=False)
    return model


def deliver(result: Any, inputs: list[torch.Tensor], mutated: list[int], path: Path) -> None:
    """Outputs, then the inputs that the reference changes, as bytes one after the other."""
    _, tensors = structure.flatten(result)
    with path.open("wb") as file:
        for tensor in [*tensors, *(inputs[index] for index in mutated)]:
            flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
            file.write(flat.cpu().numpy().tobytes())


def wait_for(gate: Path) -> None:
    """Until somebody opens the gate: importing libraries under a tool takes longer than what it is started for.

    Raises TimeoutError where nobody does: going on would disturb whoever is measured meanwhile.
    """
    deadline = time.monotonic() + _MOST_WAIT_S
    while not gate.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {_MOST_WAIT_S:.0f} s for its turn")
        time.sleep(0.01)


def run(order: dict[str, Any]) -> None:
    """Everything that an order asks for."""
    folder, scratch = Path(order["job"]), Path(order["scratch"])
    job = json.loads((folder / "job.json").read_text())
    device = torch.device(job["device"])
    torch.set_grad_enabled(False)
    if "flags" in job:
        precision_flags.set_to(job["flags"])
    capture = Capture(device)
    inputs = tensors_from(folder / "inputs.bin", job["inputs"], device)
    weights = tensors_from(folder / "weights.bin", job["weights"], device)
    if device.type == "cuda":
        torch.cuda.synchronize()
    box = sandbox.Box(scratch=str(scratch), max_processes=_MOST_PROCESSES, user=int(order["user"]))
    sandbox.drop_privileges(box, bool(order["namespaced"]))
    linux.prctl_dumpable()  # tools in this process read its maps and descriptors
    os.chdir(scratch)
    model = construct(load(scratch / "candidate.py"), job, weights, device)
    arguments = structure.unflatten(job["arguments"], inputs)
    if order.get("gate"):
        wait_for(folder / str(order["gate"]))
    result = model(*arguments)
    if order.get("deliver"):
        deliver(result, inputs, job["mutated"], scratch / OUTPUTS)
    for _ in range(int(order.get("warm_ups", 0))):
        model(*arguments)
    for _ in range(int(order.get("captured", 0))):
        capture.call(model, arguments)
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
