"""The judge's side of programs outside it: inputs as files, and what came back compared.

The reference never runs where the candidate does: a program gets the values of one draw, the weights, and nothing else.
"""

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ...state.problem import Workload
from . import compare, hidden, structure
from .buffers import Layout, spec_of, storage_bytes
from .expectation import Expectation, Leaf, check_leaf, pool, same_values

if TYPE_CHECKING:
    from .judge import Judge

_DRAW = 1_000_003
"""Number of the draw: none that checks or timed calls use."""
_MOST_BYTES = 6 << 30
_WATCHED_BYTES = 8 << 20


def hand_over(judge: "Judge", body: dict[str, Any]) -> dict[str, Any]:
    """Writes `inputs.bin`, `weights.bin` and `job.json` of one workload, or of an awkward one, to a folder."""
    folder = Path(body["folder"])
    workload = judge.workload(body["workload"]) if body["workload"] else _awkward(judge)
    if workload.input_bytes > _MOST_BYTES:
        return {"refused": f"the inputs are {workload.input_bytes >> 30} GiB, too large to hand over"}
    description, tensors = structure.flatten(judge.inputs(workload, "problem", _DRAW))
    model = judge.models["timed"]
    state = model.state_dict()
    mapping = judge.mappings.get(body["candidate"]) or {name: name for name in state}
    named = {own: state[theirs].contiguous() for own, theirs in mapping.items() if theirs in state}
    job = {
        "device": str(judge.device),
        "init": judge.init_description,
        "training": model.training,
        "flags": judge.flags,
        "rng_seed": judge.model_seed,
        "arguments": description,
        "inputs": _write(tensors, folder / "inputs.bin"),
        "weights": _write(list(named.values()), folder / "weights.bin"),
        "weight_names": list(named),
        "mutated": judge.expectation(workload, "problem", 0, "timed").mutated,
    }
    (folder / "job.json").write_text(json.dumps(job))
    secret = workload.name.startswith(hidden.PREFIX)
    return {"workload": "a hidden workload" if secret else workload.name}


def _awkward(judge: "Judge") -> Workload:
    """What to look for faulty accesses on: odd sizes, where masks and edges matter, small enough to be watched.

    The largest hidden workload of some megabytes; the smallest declared one where a problem allows no other sizes.
    """
    small = [w for w in judge.hidden_workloads() if w.input_bytes <= _WATCHED_BYTES]
    return max(small, key=lambda w: w.input_bytes, default=judge.problem.smallest)


def _write(tensors: list[torch.Tensor], path: Path) -> dict[str, Any]:
    layout = Layout([spec_of(tensor) for tensor in tensors])
    with path.open("wb") as file:
        for tensor, offset in zip(tensors, layout.offsets, strict=True):
            spec = spec_of(tensor)
            extent = storage_bytes(spec) // max(1, tensor.element_size())
            file.seek(offset)
            if extent:
                flat = tensor.detach().as_strided((extent,), (1,), tensor.storage_offset())
                file.write(flat.contiguous().view(torch.uint8).cpu().numpy().tobytes())
        file.truncate(layout.size_bytes)
    return layout.as_json()


def compare_runs(judge: "Judge", body: dict[str, Any]) -> dict[str, Any]:
    """What separate processes delivered for the same inputs: `runs`, `bitwise`, `within_tolerance`, `reason`."""
    workload = judge.workload(body["workload"])
    expected = judge.expectation(workload, "problem", _DRAW, "timed")
    delivered = [_read(Path(path), expected, judge.device) for path in body["paths"]]
    answers = [leaves for leaves in delivered if leaves is not None]
    if len(answers) < 2:
        return {"runs": len(answers), "reason": "a program of its own with the candidate in it gave no answer"}
    first, bitwise = answers[0], True
    for other in answers[1:]:
        for number, (a, b, leaf) in enumerate(zip(first, other, expected.leaves, strict=True)):
            if same_values(a, b):
                continue
            bitwise = False
            text = _difference(a, b, leaf)
            if text:
                return {
                    "runs": len(answers),
                    "bitwise": False,
                    "within_tolerance": False,
                    "reason": f"output {number} differs between two processes: {text}",
                }
    reason = "" if bitwise else "the bits differ, within the tolerance"
    return {"runs": len(answers), "bitwise": bitwise, "within_tolerance": True, "reason": reason}


def _difference(a: torch.Tensor, b: torch.Tensor, leaf: Leaf) -> str:
    """Why two answers cannot both be right; empty if they can. Each may be off by the bound, in its own direction."""
    if not a.is_floating_point():
        passed = all(pool([check_leaf(answer, leaf)])[0] for answer in (a, b))
        return "" if passed else "integers that are not near a tie"
    found = compare.distance(a, b, 2 * leaf.element_limit)
    if found.misplaced:
        return f"NaN or infinity in one and not in the other, {found.worst}"
    if found.excess:
        return f"{found.excess} elements, {found.worst}"
    if found.rms_error > 2 * leaf.bound_rms * found.tail_factor:
        return f"rms {found.rms_error:.3g} where {2 * leaf.bound_rms:.3g} is allowed"
    return ""


def _read(path: Path, expected: Expectation, device: torch.device) -> list[torch.Tensor] | None:
    """The leaves of a file that hostile code wrote; None where it is not exactly what a run would leave."""
    sizes = [leaf.oracle.numel() * leaf.dtype.itemsize for leaf in expected.leaves]
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != sum(sizes):
            return None
        leaves = []
        for leaf, size in zip(expected.leaves, sizes, strict=True):
            raw = torch.frombuffer(bytearray(file.read(size)), dtype=torch.uint8) if size else torch.empty(0)
            flat = raw.view(leaf.dtype) if size else torch.empty(0, dtype=leaf.dtype)
            leaves.append(flat.reshape(leaf.shape).to(device))
    return leaves
