"""Timing of calls too short for a pair of events: many back to back, on as many input sets, by slope.

Two events around one call add a microsecond or two of their own, and a hop between processes costs far more than the
call. So N calls and 2N calls, each on inputs of its own, are queued behind a blocking kernel; the slope between the two
is the time of one call, whatever start and end cost. The judge's wall clock holds the sum.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import torch

from . import structure
from .bench import Bench, Lead
from .clock import Stopwatch
from .expectation import check_layout
from .pairs import Duel

BELOW_MS = 0.05
"""Calls shorter than this are timed by bursts."""
_SETS = 64
_REPEATS = 20
_LONGEST_LEAD_MS = 60.0


@dataclass
class Slopes:
    """Time of one call in ms, an entry a repeat, for both sides; and what the host needs to enqueue one."""

    candidate_ms: list[float] = field(default_factory=list)
    baseline_ms: list[float] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)
    host_ms: list[float] = field(default_factory=list)


def run_bursts(duel: Duel, bench: Bench, instance: str, deadline_s: float) -> Slopes:
    """Both sides in alternation over `bench`, which holds 64 input sets. Every output of every burst is verified."""
    found = Slopes()
    own, child = Lead(_LONGEST_LEAD_MS), Lead(_LONGEST_LEAD_MS)
    stopwatch = Stopwatch(bench.device)
    for repeat in range(-1, _REPEATS):
        draws = [duel.draw(1000 + repeat * _SETS + i) for i in range(_SETS)]
        for index, values in enumerate(draws):
            bench.write(values, index, wait=False)
        bench.wait()
        baseline, outputs = _own_slope(duel, stopwatch, draws, own)
        candidate, wall_ms, host_ms = _child_slope(duel, instance, deadline_s, child)
        for index, values in enumerate(draws):
            duel.verify(repeat * _SETS + index, values, _delivered(duel, bench, index), outputs[index])
        if repeat < 0:
            continue  # the first one warms up both sides and their leads
        found.baseline_ms.append(max(baseline, 1e-6))
        found.candidate_ms.append(max(candidate, 1e-6))
        found.wall_ms.append(wall_ms)
        found.host_ms.append(host_ms)
    return found


def _own_slope(
    duel: Duel, stopwatch: Stopwatch, draws: list[Any], lead: Lead
) -> tuple[float, list[list[torch.Tensor]]]:
    half = _SETS // 2
    duel.flush()
    _, short, host_ms = stopwatch.time_many(duel.own.call, draws[:half], lead.ms)
    lead.learn(2 * host_ms)
    duel.flush()
    results, long, host_ms = stopwatch.time_many(duel.own.call, draws, lead.ms)
    lead.learn(host_ms)
    return (long - short) / half, [structure.flatten(result)[1] for result in results]


def _child_slope(duel: Duel, instance: str, deadline_s: float, lead: Lead) -> tuple[float, float, float]:
    times = []
    for count in (_SETS // 2, _SETS):
        duel.flush()
        started = time.perf_counter()
        reply = duel.session.ask("burst", deadline_s, instance=instance, lead_ms=lead.ms, count=count)
        wall_ms = (time.perf_counter() - started) * 1e3
        check_layout(reply, duel.expected)
        lead.learn(float(reply["host_ms"]) * _SETS / count)
        times.append(float(reply["ms"]))
    return (times[1] - times[0]) / (_SETS // 2), wall_ms, float(reply["host_ms"]) / _SETS


def _delivered(duel: Duel, bench: Bench, index: int) -> list[torch.Tensor]:
    inputs = bench.input_tensors(index)
    return bench.output_tensors(index) + [inputs[i] for i in duel.expected.mutated]


def sets_fit(bench_bytes: int, free_bytes: int) -> bool:
    """Whether 64 copies of a workload fit beside everything else."""
    return bench_bytes * _SETS < free_bytes // 4


SETS = _SETS
