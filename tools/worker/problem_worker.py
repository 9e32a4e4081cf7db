"""Reads and lowers the user's problem file, away from the GPU. One process a request, so that a hang can be ended."""

import socket
import time
from pathlib import Path
from typing import Any

import torch

from ...state.errors import InvalidProblem
from ...state.lowered import LoweredGraph
from .. import wire
from . import baselines, lowering, structure
from .problem_module import CPU, META, ProblemModule

_MOST_ON_CPU_BYTES = 4 << 30
_WORTHWHILE_S = 5.0
"""Of the time to lower in, below which nothing is tried once more."""


def describe(body: dict[str, Any]) -> dict[str, Any]:
    """The Problem that a file declares."""
    module = ProblemModule(Path(body["path"]), body["source"])
    return {"problem": module.describe().model_dump(mode="json")}


def lower(body: dict[str, Any]) -> dict[str, Any]:
    """The reference as core ATen, for one workload: with its free dimensions symbolic, or at its sizes."""
    end_s = time.monotonic() + float(body["deadline_s"])
    module = ProblemModule(Path(body["path"]), body["source"])
    try:
        graph, size_bytes = _lowered(module, body, META, end_s)
    except InvalidProblem:
        # A constructor or get_inputs that reads numbers off tensors, as drop path rates are: there are none on `meta`.
        graph, _ = _lowered(module, body, CPU, end_s)
    else:
        if graph.unsupported and size_bytes <= _MOST_ON_CPU_BYTES and time.monotonic() + _WORTHWHILE_S < end_s:
            # What forward makes itself lies on the CPU, and autocast asks for a device's name: both differ from `meta`.
            graph, _ = _lowered(module, body, CPU, end_s)
    return {"graph": graph.model_dump(mode="json")}


def _lowered(
    module: ProblemModule, body: dict[str, Any], device: torch.device, end_s: float
) -> tuple[LoweredGraph, int]:
    """The graph, and what the model and its inputs take on a device that has memory. Raises InvalidProblem."""
    model = module.model(device, 0)
    inputs = module.inputs(body["arguments"], device, None if device == META else 0)
    tensors = [*model.parameters(), *model.buffers(), *structure.flatten(inputs)[1]]
    left_s = max(1.0, end_s - time.monotonic())
    graph = lowering.lower(model, inputs, deadline_s=left_s, dynamic=None if body["dynamic"] else {})
    return graph, sum(tensor.nbytes for tensor in tensors)


def generated(body: dict[str, Any]) -> dict[str, Any]:
    """The code that torch.compile makes of the reference at one workload: Triton for a GPU, C++ for a CPU."""
    from torch._inductor.utils import run_and_get_code  # opens the GPU, which the fork server must not

    baselines.use_cache(Path(body["cache"]), threads=1)
    device = torch.device(body["device"])
    module = ProblemModule(Path(body["path"]), body["source"])
    model = module.model(device, 0)
    inputs = module.inputs(body["arguments"], device, 0)
    _, codes = run_and_get_code(baselines.build("compile", module, model), *inputs)
    return {"text": "\n\n".join(codes)}


OPERATIONS = {"describe": describe, "lower": lower, "generated": generated}


def main(channel: socket.socket, _params: dict[str, Any]) -> None:
    """Answers one request."""
    message = wire.receive(channel)
    try:
        reply = OPERATIONS[message.body["op"]](message.body)
    except InvalidProblem as error:
        reply = {"fault": "problem", "text": str(error)}
    except Exception as error:  # noqa: BLE001 - the worker boundary
        reply = {"fault": "infra", "text": f"{type(error).__name__}: {error}"}
    wire.send(channel, reply)
