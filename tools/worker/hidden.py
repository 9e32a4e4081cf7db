"""Hidden workloads: sizes that a problem allows and no writer is shown."""

import random
from typing import TYPE_CHECKING

from ...state.problem import Problem, Workload
from . import buffers, structure

if TYPE_CHECKING:
    from .problem_module import ProblemModule

_AWKWARD = (1, 2, 7, 17, 31, 33, 63, 65, 127, 129, 251, 257, 509, 1021, 1023, 1025, 2047, 4099)
"""Primes, and both sides of usual tile edges."""
PREFIX = "hidden-"
_COUNT = 3
_MOST_BYTES = 1 << 28


def workloads(problem: Problem, module: "ProblemModule", rng_seed: int) -> list[Workload]:
    """A few workloads with every declared dimension at an awkward size; none where the problem declares no ranges.

    Other arguments are those of the smallest workload. All sizes differ from the declared workloads'.
    """
    import torch

    rng = random.Random(rng_seed)
    if not problem.ranges:
        return []
    found: list[Workload] = []
    for number in range(4 * _COUNT):
        arguments = dict(problem.smallest.arguments)
        for name, (low, high) in problem.ranges.items():
            allowed = [size for size in _AWKWARD if low <= size <= high]
            arguments[name] = rng.choice(allowed) if allowed else rng.randint(low, high)
        if any(arguments == w.arguments for w in (*problem.workloads, *found)):
            continue
        values = module.inputs(arguments, torch.device("meta"))
        _, tensors = structure.flatten(values)
        size = sum(buffers.storage_bytes(buffers.spec_of(tensor)) for tensor in tensors)
        if size <= _MOST_BYTES:
            found.append(Workload(name=f"{PREFIX}{number}", arguments=arguments, input_bytes=size))
        if len(found) == _COUNT:
            break
    return found
