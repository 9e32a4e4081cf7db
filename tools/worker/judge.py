"""The judge: one trusted process a problem and GPU. It alone owns reference, inputs, expected values, clock, verdict.

Speaks with the controller over its channel (`open`, `vet`, `baseline`, `evaluate`). With each candidate comes a
descriptor to the boxed process that it is in: `CellStock` had that made.
"""

import gc
import hashlib
import os
import socket
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ...state.errors import InfraError, InvalidProblem
from ...state.evaluation import Evaluation, Status
from ...state.problem import Problem, Workload
from .. import wire
from ..cell import channel_from
from ..fork_server import ForkServer
from . import (
    baselines,
    draws,
    handover,
    hidden,
    identity,
    layouts,
    precision_flags,
    reference_precision,
    structure,
    vetting,
)
from .baseline_side import BaselineSide
from .bench import Bench, BenchPlan, Flush
from .clock import Stopwatch
from .context_switch import ContextSwitch
from .expectation import Expectation, same_values
from .known_expectations import KnownExpectations
from .problem_module import ProblemModule

_SETS_BYTES = 64 << 20
"""Sets of buffers of a workload are as many as fit, at least two: more calls in a burst where one is too short."""
_MOST_SETS = 8
_QUIET_S = 120.0
"""Longer than another process takes to start or to be ended."""
_TIMED_DRAWS = 1 << 40
"""Draws of timed calls are numbered from here on, those of checks from 0 on."""
_ROOM_SHARE = 0.25
"""Share of the GPU's memory that a candidate should find free."""
_IDLE_BYTES = 1 << 30


class Judge:
    """State of one judge process: the opened problem and everything that is reused over candidates."""

    def __init__(self, server: ForkServer, params: dict[str, Any]) -> None:
        self.server = server
        self.params = params
        self.device = torch.device(params["device"])
        self.work_dir = Path(params["work_dir"])
        # The same draws for baseline and every candidate of this run, and nobody else can know them.
        self._run_key = os.urandom(16)
        self._expectations = KnownExpectations(self)
        self._benches: dict[tuple[str, str], Bench] = {}
        self._hidden: list[Workload] | None = None
        self._neighbours: list[Workload | None] = []
        self._fixed: dict[str, bool] = {}
        self.mutant_weights = "timed"
        self.mappings: dict[str, dict[str, str]] = {}
        """Own weights to the reference's, by candidate: those that were judged."""
        self.hop_ms: dict[str, float] = {}
        """What a burst costs on the wall clock beside its calls' own time, by workload: from the reference in a child.
        """
        self.baselines = BaselineSide(self)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            torch.cuda.init()
        self.flush = Flush(self.device)
        self.stopwatch = Stopwatch(self.device, str(params.get("blocker", "")))
        # Its kernel is the blocking one: where that does not load, the lead is weaker, and there is no switch.
        self.switch = ContextSwitch(self.device, "" if self.stopwatch.weakness else str(params.get("blocker", "")))
        self.event_ms = self.stopwatch.event_ms()
        self.before_timing: Callable[[], None] = lambda: None
        """Called before the first timed call: returns once nothing else uses the GPU."""

    def open(self, body: dict[str, Any]) -> dict[str, Any]:
        """Loads the problem and builds the reference under two sets of weights."""
        self.problem = Problem.model_validate(body["problem"])
        self.bounds: dict[str, dict[str, float]] = body["bounds"]
        self.hop_ms = dict(body.get("hop_ms", {}))
        precision_flags.set_for(self.problem.precision)
        baselines.use_cache(self.work_dir / "inductor", int(self.params.get("compile_threads", 1)))
        self.module = ProblemModule(Path(self.problem.path), self.problem.source)
        self.init_description, _ = structure.flatten(self.module.init_arguments())
        self._draw_weights()
        self.flags = self._flags()
        probe = self.inputs(self.problem.primary, "normal") if self.device.type == "cuda" else []
        self.unit_in = reference_precision.permitted_roundoff(self.problem.precision, self.models["timed"], probe)
        self.use_baselines(body)
        return {"flags": self.flags}

    def _flags(self) -> dict[str, bool]:
        """The flags that the reference runs under: its file may have set some, if not against its own policy."""
        try:
            return precision_flags.set_for(self.problem.precision)
        except RuntimeError as error:
            text = "sets a precision that PyTorch's `allow_tf32` cannot tell; set `torch.backends.*.allow_tf32` instead"
            raise self.module.fault(text) from error

    def _draw_weights(self) -> None:
        model_seed = draws.fresh_seed() % (1 << 31)
        models = {kind: self.module.model(self.device, model_seed) for kind in ("timed", "random")}
        draws.randomise_weights(models["random"], model_seed + 1)
        self.model_seed, self.models = model_seed, models  # both or, where memory is short, none

    def renew(self, _body: dict[str, Any]) -> dict[str, Any]:
        """Draws anew what a judge draws when it opens. What it imported, its calibration and its buffers stay, but for
        those of hidden workloads: others bear their names now.
        """
        for of_old_draws in (self._expectations, self.mappings, self._neighbours):
            of_old_draws.clear()
        self.baselines.forget()
        self._hidden = None
        for key in [key for key in self._benches if key[0].startswith(hidden.PREFIX)]:
            self._benches.pop(key).release()
        self._run_key = os.urandom(16)
        self._draw_weights()
        gc.collect()  # workers run with automatic collection off, and old weights may be large
        return {"ok": True}

    def seed(self, *what: Any) -> int:
        """The seed of a draw: fixed for this run, unknown outside this process."""
        text = repr(what).encode()
        return int.from_bytes(hashlib.blake2b(text, key=self._run_key, digest_size=7).digest(), "little")

    def workload(self, name: str) -> Workload:
        return next(w for w in self.problem.workloads if w.name == name)

    def inputs(self, workload: Workload, kind: str, number: int = 0) -> list[Any]:
        """Inputs of one draw, on the device."""
        rng_seed = self.seed(workload.name, kind, number)
        return draws.draw(self.module, workload.arguments, kind, rng_seed, self.device)

    def timed_inputs(self, workload: Workload, number: int) -> list[Any]:
        """Inputs of a timed call. None of a check: those the candidate saw, and answered."""
        kind = draws.ROLLED if self.draws_are_fixed(workload) else "problem"
        return self.inputs(workload, kind, _TIMED_DRAWS + number)

    def draws_are_fixed(self, workload: Workload) -> bool:
        """Whether get_inputs gives the same numbers under every seed, since it sets its own."""
        if workload.name not in self._fixed:
            some, others = (structure.flatten(self.inputs(workload, "problem", n))[1] for n in (0, 1))
            self._fixed[workload.name] = bool(some) and all(map(same_values, some, others))
        return self._fixed[workload.name]

    def expectation(self, workload: Workload, kind: str, number: int, weights: str) -> Expectation:
        """Expected values of one draw, kept between candidates while memory allows."""
        return self._expectations.of(workload, kind, number, weights)

    def expect_typical(self, expected: Expectation, workload: Workload, kind: str, weights: str) -> None:
        """Tells a draw's expectation what is typical of its kind, where an error of few elements is too large."""
        expected.expect_typical(self._expectations.typical(expected, workload, kind, weights))

    def expected_of(self, weights: str, inputs: list[Any]) -> Expectation:
        """Expected values on any inputs."""
        return self._expectations.on(weights, inputs)

    def make_room(self) -> None:
        """Gives memory that PyTorch keeps for reuse back where little is left: a candidate needs its own."""
        if self.device.type != "cuda":
            return
        free_bytes, total_bytes = torch.cuda.mem_get_info()
        idle_bytes = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if free_bytes < _ROOM_SHARE * total_bytes and idle_bytes > _IDLE_BYTES:
            gc.collect()  # workers run with automatic collection off
            torch.cuda.empty_cache()

    def bench(self, workload: Workload, expected: Expectation, layout: layouts.Name = "plain") -> Bench:
        """Shared buffers of a workload, reused over candidates."""
        key = (workload.name, layout)
        if key not in self._benches:
            leaves = expected.leaves[: len(expected.leaves) - len(expected.mutated)]
            outputs = [torch.empty(leaf.shape, dtype=leaf.dtype, device="meta") for leaf in leaves]
            inputs = self.inputs(workload, "problem", -1)
            size_bytes = workload.input_bytes + sum(leaf.oracle.nbytes for leaf in leaves)
            sets = _sets(size_bytes) if layout == "plain" else 1  # other layouts are not timed
            self._benches[key] = Bench(inputs, outputs, self.device, BenchPlan(sets=sets, layout=layout))
        return self._benches[key]

    def hidden_workloads(self) -> list[Workload]:
        """Shapes that no writer is shown, from the ranges that the problem declares; fixed for this run."""
        if self._hidden is None:
            self._hidden = hidden.workloads(self.problem, self.module, self.seed("hidden"))
        return self._hidden

    def neighbour(self) -> Workload | None:
        """A shape near the smallest workload's that no writer is shown; fixed for this run."""
        if not self._neighbours:
            self._neighbours = [hidden.neighbour(self.problem, self.module, self.seed("neighbour"))]
        return self._neighbours[0]

    def use_baselines(self, body: dict[str, Any]) -> dict[str, Any]:
        """Gets the best baselines ready; says the shape to compile candidates for beside those that are known."""
        self.baselines.use(body.get("best_baseline", {}))
        near = self.neighbour()
        return {"neighbour": near.model_dump() if near else None}

    def vet(self, _body: dict[str, Any]) -> dict[str, Any]:
        """Refuses problems that cannot be judged; notes otherwise."""
        return {"notes": vetting.vet(self)}

    def identity(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reference against itself, through the whole harness."""
        return identity.measure(self, body)

    def evaluate(self, body: dict[str, Any]) -> dict[str, Any]:
        """One candidate's verdict."""
        from . import verdict

        if self.device.type == "cuda":
            for workload in self.problem.timed_workloads:  # timed alone before anything of the candidate is loaded
                self.baselines.calls(self.baselines.name(workload), workload)
        try:
            found = verdict.judge_candidate(self, body)
        except torch.OutOfMemoryError as error:
            self._expectations.clear()
            torch.cuda.empty_cache()
            found = Evaluation(
                candidate=body["candidate"],
                problem=self.problem.id,
                status=Status.RESOURCE,
                tier=body["tier"],
                message=f"the comparison does not fit in GPU memory (the harness's limit): {str(error)[:200]}",
            )
        return found.model_dump(mode="json")

    def probe(self) -> None:
        """Raises InfraError unless the GPU still computes."""
        try:
            x = torch.arange(1024, device=self.device)
            if int(x.sum()) != 1024 * 1023 // 2:
                raise InfraError("the GPU computes wrongly after a crash")
        except RuntimeError as error:
            raise InfraError(f"the GPU does not answer after a crash: {error}") from error


def _sets(size_bytes: int) -> int:
    return max(2, min(_MOST_SETS, _SETS_BYTES // max(1, size_bytes)))


def _wait_for_quiet(channel: socket.socket) -> None:
    wire.send(channel, {"stage": "timing"})
    wire.receive(channel, _QUIET_S)


def main(channel: socket.socket, server: socket.socket, params: dict[str, Any]) -> None:
    """Entry point: answers the controller until it hangs up."""
    try:
        judge = Judge(ForkServer(server), params)
    except Exception as error:  # noqa: BLE001 - the controller must learn why its judge does not start
        wire.send(channel, {"fault": "infra", "text": f"no judge: {type(error).__name__}: {error}"})
        return
    wire.send(channel, {"ready": True})
    judge.before_timing = partial(_wait_for_quiet, channel)
    handlers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "open": judge.open,
        "vet": judge.vet,
        "renew": judge.renew,
        "baseline": judge.baselines.time,
        "use_baselines": judge.use_baselines,
        "identity": judge.identity,
        "evaluate": judge.evaluate,
        "hand_over": partial(handover.hand_over, judge),
        "compare_runs": partial(handover.compare_runs, judge),
    }
    while True:
        try:
            message = wire.receive(channel)
        except wire.WireError:
            return  # the controller is gone
        try:
            body = message.body
            if body["op"] in ("evaluate", "identity"):
                body["channel"] = channel_from(message.fds)
            reply = handlers[body["op"]](body)
        except InvalidProblem as error:
            reply = {"fault": "problem", "text": str(error)}
        except Exception as error:  # noqa: BLE001 - the worker boundary: our own fault, told as such
            text = f"{type(error).__name__}: {error}"
            reply = {"fault": "infra", "text": text, "trace": traceback.format_exc()[-4000:]}
        wire.send(channel, reply)
