"""Reads and lowers the user's problem file, away from the GPU. One process a request, so that a hang can be ended."""

import socket
from pathlib import Path
from typing import Any

import torch

from ...state.errors import InvalidProblem
from .. import wire
from . import baselines, lowering
from .problem_module import ProblemModule

_META = torch.device("meta")


def describe(body: dict[str, Any]) -> dict[str, Any]:
    """The Problem that a file declares."""
    module = ProblemModule(Path(body["path"]), body["source"])
    return {"problem": module.describe().model_dump(mode="json")}


def lower(body: dict[str, Any]) -> dict[str, Any]:
    """The reference as core ATen, for one workload: with its free dimensions symbolic, or at its sizes."""
    module = ProblemModule(Path(body["path"]), body["source"])
    model = module.model(_META, 0)
    inputs = module.inputs(body["arguments"], _META)
    graph = lowering.lower(model, inputs, deadline_s=float(body["deadline_s"]), dynamic=None if body["dynamic"] else {})
    return {"graph": graph.model_dump(mode="json")}


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
