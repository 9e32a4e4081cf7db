"""Timing by pairs: candidate and baseline in alternation (ABBA), fresh inputs a pair, every output checked."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from ...state.evaluation import Status
from .. import statistics
from . import structure
from .bench import Bench, Copies, Flush
from .expectation import Expectation, check_layout, clone_nested
from .lead import Lead
from .own_calls import OwnCalls
from .session import CandidateFailed, Session
from .stages import Stages
from .trial import delivered_leaves, hold_inputs

_FIRST_LOOK = 10
_RETRY_STRIDE = 100_000
"""Draws of retried pairs are numbered far from all others."""
_WARM_UP_SHARE = 0.2
"""Of the time for all pairs: slow calls are warm after two."""
_RETRIES = 3
"""A call whose launch was not hidden, or that ended late, is measured again; after this many it counts as it is."""


@dataclass(frozen=True)
class Plan:
    """How many calls and under which limits."""

    pairs: int = 50
    warm_ups: int = 10
    deadline_s: float = 30.0
    instance: str = "timed"
    most_s: float = 60.0
    """After so long no more pairs are taken than the first look needs: slow calls scatter less."""
    enough: int | None = None
    """After so many pairs no more are taken where the ratio is known by then; None takes all."""
    give_up_ms: float | None = None
    """A candidate whose first pairs are slower than this is not timed to the end."""

    @property
    def parts(self) -> tuple[int, ...]:
        """Numbers of pairs that are taken in any case, then of those that may follow."""
        return (_FIRST_LOOK, self.pairs - _FIRST_LOOK) if self.pairs > _FIRST_LOOK else (self.pairs,)


@dataclass
class Pairs:
    """What the calls gave, in ms, one entry a pair."""

    candidate_ms: list[float] = field(default_factory=list)
    baseline_ms: list[float] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)
    host_ms: list[float] = field(default_factory=list)
    first_call_ms: float = 0.0
    lead: Lead = field(default_factory=Lead)


@dataclass
class Duel:
    """The two sides of a measurement on one workload, and how to judge what the candidate delivers."""

    workload: str
    session: Session
    bench: Bench
    own: OwnCalls
    expected: Expectation
    draw: Callable[[int], list[Any]]
    """Fresh inputs of pair number i."""
    verify: Callable[[int, list[Any], list[torch.Tensor], list[torch.Tensor]], None]
    """Given pair, inputs, delivered outputs and the baseline's: raises CandidateFailed if they disagree."""
    flush: Flush
    stages: Stages
    described: list[dict[str, Any]] = field(default_factory=list)
    """The outputs of the last burst as the candidate's process describes them."""


def call_candidate(duel: Duel, plan: Plan, lead_ms: float) -> tuple[dict[str, Any], float]:
    """One lock-step call: the reply (layout checked) and the judge's own wall time in ms."""
    started = time.perf_counter()
    reply = duel.session.ask("call", plan.deadline_s, instance=plan.instance, index=duel.bench.current, lead_ms=lead_ms)
    wall_ms = (time.perf_counter() - started) * 1e3
    check_layout(reply, duel.expected)
    return reply, wall_ms


def run_pairs(duel: Duel, plan: Plan, attempt: int = 0) -> Pairs:
    """Warm-ups, then timed pairs. Raises CandidateFailed as soon as any output is wrong.

    Another attempt takes other draws: answers remembered from the first are no use.
    """
    found = Pairs()
    started = time.monotonic()
    _warm_up(duel, plan, found)
    for number in range(plan.pairs):
        _one_pair(duel, plan, found, attempt * plan.pairs + number)
        if number + 1 == _FIRST_LOOK:
            _give_up_if_hopeless(plan, found)
        if number + 1 >= _FIRST_LOOK and time.monotonic() - started > plan.most_s:
            break
        if number + 1 == plan.enough and statistics.settled(found.baseline_ms, found.candidate_ms):
            break
    return found


def _warm_up(duel: Duel, plan: Plan, found: Pairs) -> None:
    """Calls on every set in turn: graphs and descriptors that a candidate keeps an address are made here."""
    started = time.monotonic()
    values = duel.draw(-1)
    for number in range(plan.warm_ups):
        index = number % duel.bench.sets
        if number < duel.bench.sets or duel.expected.mutated:
            duel.bench.write(values, index)
        duel.bench.current = index
        reply, _ = call_candidate(duel, plan, 0.0)
        if number == 0:
            found.first_call_ms = float(reply["total_ms"])
            continue
        found.lead.learn(float(reply["host_ms"]))
        if time.monotonic() - started > _WARM_UP_SHARE * plan.most_s:
            return


def _give_up_if_hopeless(plan: Plan, found: Pairs) -> None:
    middle = median(found.candidate_ms)
    if plan.give_up_ms is not None and middle > plan.give_up_ms:
        text = f"not timed to the end: {middle:.4f} ms after {_FIRST_LOOK} pairs, far behind the best"
        raise CandidateFailed(Status.UNVERIFIED, text)


def _one_pair(duel: Duel, plan: Plan, found: Pairs, number: int) -> None:
    """One sample of both sides, on inputs that no earlier call saw; taken anew where something disturbed it."""
    candidate_first = number % 2 == 1
    for retry in range(_RETRIES):
        with duel.stages("time: fresh inputs"):
            inputs = duel.draw(number + retry * _RETRY_STRIDE)
        if not candidate_first:
            baseline_ms, baseline_output = _time_baseline(duel, inputs)
        reply, wall_ms = _time_candidate(duel, plan, inputs, found)
        delivered = delivered_leaves(duel.bench, duel.expected)
        with duel.stages("time: inputs held"):
            hold_inputs(duel.bench, inputs, duel.expected)
        if candidate_first:
            # The delivered outputs stay in the judge's buffer while the baseline runs: nobody else writes it now.
            baseline_ms, baseline_output = _time_baseline(duel, inputs)
        with duel.stages("time: outputs checked"):
            duel.verify(number, inputs, delivered, baseline_output)
        disturbed = (found.lead.exposed, duel.own.lead.exposed, reply.get("late"), duel.own.late)
        if not any(disturbed):
            break
    found.baseline_ms.append(max(baseline_ms, 1e-6))
    found.candidate_ms.append(max(float(reply["ms"]), 1e-6))
    found.wall_ms.append(wall_ms)
    found.host_ms.append(float(reply["host_ms"]))


def _time_candidate(duel: Duel, plan: Plan, inputs: list[Any], found: Pairs) -> tuple[dict[str, Any], float]:
    with duel.stages("time: inputs written"):
        duel.bench.write(inputs, misled=True)
    with duel.stages("time: cache emptied behind decoys"):
        duel.flush()
        duel.bench.restore()
    reply, wall_ms = call_candidate(duel, plan, found.lead.ms)
    found.lead.learn(float(reply["host_ms"]))
    return reply, wall_ms


def _time_baseline(duel: Duel, inputs: list[Any]) -> tuple[float, list[torch.Tensor]]:
    """The baseline on the same values, from the judge's own memory: its time in ms and its outputs."""
    arguments = clone_nested(inputs) if duel.expected.mutated else inputs
    with duel.stages("time: baseline beside"):
        duel.flush()
        result, milliseconds = duel.own.time(arguments)
    return milliseconds, _leaves(duel, result, arguments)


def _leaves(duel: Duel, result: Any, arguments: list[Any]) -> list[torch.Tensor]:
    """A call's outputs followed by the arguments that the reference changes."""
    _, tensors = structure.flatten(result)
    _, after = structure.flatten(arguments)
    return tensors + [after[i] for i in duel.expected.mutated]


def burst_ms(duel: Duel, plan: Plan, number: int) -> float:
    """The judge's wall time, in ms, of one call on every set of buffers, nothing waited for in between.

    No lead and no clock of the candidate's process. Inputs are wrong until the clock starts, and the clock stops when
    all outputs lie in the judge's own memory: an answer before the work gains nothing. Every output is checked: a call
    left out shows.
    """
    copies = Copies(duel.bench, duel.expected.mutated)
    for index in range(duel.bench.sets):
        duel.bench.write(duel.draw(number + index), index, misled=True)
    duel.flush()
    duel.bench.restore()
    started = time.perf_counter()
    reply = duel.session.ask("burst", plan.deadline_s * duel.bench.sets, instance=plan.instance)
    copies.take()
    wall_ms = (time.perf_counter() - started) * 1e3
    check_layout(reply, duel.expected)
    duel.described = reply["specs"]
    for index in range(duel.bench.sets):
        inputs = duel.draw(number + index)  # drawn again: held all the while, large ones would not fit
        arguments = clone_nested(inputs) if duel.expected.mutated else inputs
        own = _leaves(duel, duel.own.call(*arguments), arguments)
        duel.verify(number + index, inputs, copies.leaves(index), own)
    return wall_ms
