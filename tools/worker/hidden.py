"""Hidden workloads: sizes that a problem allows and no writer is shown."""

import random
from typing import TYPE_CHECKING

from ...state.problem import Problem, Workload

if TYPE_CHECKING:
    from .problem_module import ProblemModule

_AWKWARD = (1, 2, 7, 17, 31, 33, 63, 65, 127, 129, 251, 257, 509, 1021, 1023, 1025, 2047, 4099)
"""Primes, and both sides of usual tile edges."""
PREFIX = "hidden-"
_COUNT = 3
_MOST_BYTES = 1 << 28
_STEP = 16
_ENOUGH = 4096


def workloads(problem: Problem, module: "ProblemModule", rng_seed: int) -> list[Workload]:
    """A few workloads with every declared dimension at an awkward size; none where the problem declares no ranges.

    Other arguments are those of the smallest workload. All sizes differ from the declared workloads'.
    """
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
        workload = module.workload(f"{PREFIX}{number}", arguments, timed=False)
        if workload.input_bytes <= _MOST_BYTES:
            found.append(workload)
        if len(found) == _COUNT:
            break
    return found


def neighbour(problem: Problem, module: "ProblemModule", rng_seed: int) -> Workload | None:
    """The smallest workload with every declared dimension moved a little; None where nothing can be moved.

    Sizes stay below the same power of two and move by multiples of 16 where that is possible, so that kernels
    specialised on either need no new compilation: cheap enough for every candidate.
    """
    rng = random.Random(rng_seed)
    arguments = dict(problem.smallest.arguments)
    for name, (low, high) in problem.ranges.items():
        size = arguments.get(name, module.default(name))
        if not isinstance(size, int) or size < 2:
            continue
        top = 1 << (size - 1).bit_length()
        large = problem.smallest.input_bytes > _MOST_BYTES
        least, most = max(low, top // 2 + 1, 2), min(high, size if large else top)
        # Ranges, not lists: a size of a hundred million has as many neighbours.
        alike = range(least + (size - least) % _STEP, most + 1, _STEP)
        options = [n for n in _some(alike, rng) if n != size] or [
            n for n in _some(range(least, most + 1), rng) if n != size and (n % _STEP == 0) == (size % _STEP == 0)
        ]
        arguments[name] = rng.choice(options) if options else size
    if any(arguments == w.arguments for w in problem.workloads):
        return None
    return module.workload(f"{PREFIX}neighbour", arguments, timed=False)


def _some(sizes: range, rng: random.Random) -> list[int]:
    """All of a few sizes, some of many."""
    return list(sizes) if len(sizes) <= _ENOUGH else [rng.choice(sizes) for _ in range(_ENOUGH)]
