"""One candidate in its process: instances with the reference's weights, and comparisons with the oracle."""

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ...state.evaluation import Check, Status
from ...state.problem import Workload
from ...state.timing import Timing
from . import compare, device_memory, hidden, layouts, structure, weights
from .bench import Bench
from .buffers import DeviceBuffer, Layout, allocate, spec_of
from .expectation import Expectation, Finding, check_all, check_layout, pool, same_values
from .session import CandidateFailed, Session, readable

if TYPE_CHECKING:
    from .judge import Judge

_REPEATS = (8, 16, 32, 64)
"""Of a draw, where outputs have few elements: so many at first, and more as long as they leave it open. The first two
where other outputs are large: each repeat is one of them too."""
_REPEATED_KINDS = ("problem", "normal", "negative")
"""Repeated in any case; the others where one draw leaves it open."""
_LOAD_S = 120.0
_CALL_S = 60.0
"""Longest call that may still have to compile."""
_COMPILED_CALL_S = 10.0


class Trial:
    """One candidate in its process, with the instances that the judge made of it."""

    def __init__(self, judge: "Judge", session: Session, body: dict[str, Any]) -> None:
        self.judge = judge
        self.session = session
        self.candidate = str(body.get("candidate", ""))
        self.path = str(body["path"])
        """From inside its box; the judge does not look there, where the candidate writes."""
        self.source = str(body.get("source", ""))
        self.baseline = body.get("baseline")
        self.quick = body.get("tier") == "quick"
        self.identity = bool(body.get("identity"))
        """The candidate is the reference itself: its calls calibrate the hop, however far behind it is."""
        self.give_up_ms = body.get("give_up_ms") if self.quick and not self.identity else None
        self._limit_s = body.get("call_limit_s")
        self._compiled = bool(body.get("compiled"))
        self.setup_ms = 0.0
        self.mapped: tuple[str, str] = ("", "")
        self._roundoffs: list[float] = []

    def call_s(self, workload: Workload) -> float:
        """The longest that one call may take: longer where it may have to compile, as for a hidden workload."""
        if self._limit_s:
            return float(self._limit_s)
        return _COMPILED_CALL_S if self._compiled and workload in self.judge.problem.workloads else _CALL_S

    def prepare(self) -> None:
        """Loads the file, makes two instances, gives them the reference's weights."""
        judge = self.judge
        primary = judge.problem.primary
        reading = device_memory.of_others if judge.device.type == "cuda" else device_memory.nothing
        self.memory = device_memory.DeviceMemory(primary.input_bytes + primary.output_bytes, reading)
        self.session.ask("load", _LOAD_S, path=self.path, flags=judge.flags)
        first = self._construct("timed", judge.model_seed)
        mapping = self._mapping(first["state"])
        judge.mappings[self.candidate] = mapping
        self.setup_ms = float(first["setup_ms"])
        self._construct("random", judge.model_seed)
        for kind, model in judge.models.items():
            self._give_weights(kind, model, mapping)

    def _construct(self, instance: str, rng_seed: int) -> dict[str, Any]:
        return self.session.ask(
            "construct",
            _LOAD_S,
            instance=instance,
            rng_seed=rng_seed,
            init=self.judge.init_description,
            training=self.judge.models["timed"].training,
        )

    def _mapping(self, state: list[dict[str, Any]]) -> dict[str, str]:
        judge = self.judge
        reference = [weights.state_of(judge.models["timed"])]
        candidate = [state]
        known = {(e["name"], tuple(e["shape"])) for e in reference[0]}
        if any((e["name"], tuple(e["shape"])) not in known for e in state):
            other_seed = judge.model_seed + 7
            candidate.append(self._construct("probe", other_seed)["state"])
            reference.append(weights.state_of(judge.module.model(judge.device, other_seed)))
        try:
            return weights.map_weights(candidate, reference)
        except weights.CannotMap as error:
            raise CandidateFailed(Status.CONTRACT_ERROR, str(error)) from error
        except (KeyError, TypeError, ValueError) as error:
            raise CandidateFailed(Status.CONTRACT_ERROR, f"describes its weights unreadably: {error}") from error

    def _give_weights(self, instance: str, model: torch.nn.Module, mapping: dict[str, str]) -> None:
        if not mapping:
            return
        state = model.state_dict()
        tensors = [state[theirs].contiguous() for theirs in mapping.values()]
        layout = Layout([spec_of(tensor) for tensor in tensors])
        buffer = allocate(layout.size_bytes, self.judge.device)
        for view, tensor in zip(layout.views(buffer), tensors, strict=True):
            view.copy_(tensor)
        if self.judge.device.type == "cuda":
            torch.cuda.synchronize()
        try:
            # On a CPU the descriptor is the buffer's own, and goes with it once it is sent: nobody sends it again.
            reply = self.session.ask(
                "weights", _LOAD_S, [buffer.export()], instance=instance, names=list(mapping), layout=layout.as_json()
            )
        finally:
            if isinstance(buffer, DeviceBuffer):
                buffer.release()
        if instance == "timed":
            self.setup_ms += float(reply["setup_ms"])

    def map(self, workload: Workload, expected: Expectation, layout: layouts.Name = "plain") -> Bench:
        """Shows the child a workload's buffers, once in a row."""
        bench = self.judge.bench(workload, expected, layout)
        if self.mapped != (workload.name, layout):
            fields, fds = bench.message()
            self.session.ask("workload", _LOAD_S, fds, **fields)
            self.mapped = (workload.name, layout)
        return bench

    def check(self, workload: Workload, kind: str, layout: layouts.Name = "plain") -> Check:
        """One kind of draw: repeats where the output is small, pooled; random weights on all but the problem's own."""
        expected = self._expected(workload, kind, 0)
        few = [leaf.few for leaf in expected.leaves]
        findings = [self._compare(workload, kind, 0, layout)]
        if (expected.few and kind in _REPEATED_KINDS and layout == "plain") or _open(findings, few):
            for count in _REPEATS if expected.few else _REPEATS[:2]:
                findings += [self._compare(workload, kind, number, layout) for number in range(len(findings), count)]
                if not _open(findings, few):
                    break
        return self._summary(workload, kind, findings)

    def _expected(self, workload: Workload, kind: str, number: int) -> Expectation:
        return self.judge.expectation(workload, kind, number, "timed" if kind == "problem" else "random")

    def _compare(self, workload: Workload, kind: str, number: int, layout: layouts.Name) -> list[Finding]:
        judge = self.judge
        instance = "timed" if kind == "problem" else "random"
        expected = self._expected(workload, kind, number)
        bench = self.map(workload, expected, layout)
        inputs = judge.inputs(workload, kind, number)
        bench.write(inputs)
        judge.make_room()
        canary = kind == "normal" and number == 0
        asked: dict[str, Any] = {"instance": instance, "index": bench.current, "lead_ms": 0.0, "canary": canary}
        reply = self.session.ask("call", self.call_s(workload), **asked)
        check_layout(reply, expected)
        if reply.get("overrun"):
            raise CandidateFailed(Status.UNSAFE, f"writes past the end of its {readable(reply['overrun'])[:20]}")
        hold_inputs(bench, inputs, expected)
        ask_typical = partial(judge.expect_typical, expected, workload, kind, instance)
        return check_all(delivered_leaves(bench, expected), expected, ask_typical)

    def _summary(self, workload: Workload, kind: str, findings: list[list[Finding]]) -> Check:
        """The worst leaf decides; its numbers are shown, relative to the oracle's rms."""
        worst: tuple[bool, Finding] | None = None
        for passed, pooled in _pooled(findings):
            scale = max(pooled.condition / 2.0**-24, pooled.value)
            if scale > 0:
                self._roundoffs.append(pooled.error / scale)
            if (
                worst is None
                or (worst[0] and not passed)
                or (worst[0] == passed and _badness(pooled) > _badness(worst[1]))
            ):
                worst = (passed, pooled)
        assert worst is not None
        passed, pooled = worst
        return as_check(workload.name, kind, passed, pooled)

    def labels(self, timings: tuple[Timing, ...]) -> tuple[str, ...]:
        """Facts that do not decide."""
        launch_bound = any("launch-bound" in timing.note for timing in timings)
        return ("launch_bound",) if launch_bound else ()

    @property
    def error_class(self) -> str:
        """The precision that the largest error looks like."""
        return compare.error_class(max(self._roundoffs)) if self._roundoffs else ""


def hold_inputs(bench: Bench, inputs: list[Any], expected: Expectation) -> None:
    """Inputs must be as written, but for those that the reference itself changes. Raises CandidateFailed."""
    _, written = structure.flatten(inputs)
    for number, (value, now) in enumerate(zip(written, bench.input_tensors(), strict=True)):
        if number not in expected.mutated and not same_values(value, now):
            text = f"changes its input {number}, which the reference leaves alone"
            raise CandidateFailed(Status.CONTRACT_ERROR, text)


def delivered_leaves(bench: Bench, expected: Expectation, index: int | None = None) -> list[torch.Tensor]:
    """The candidate's outputs followed by the inputs that it was expected to change."""
    inputs = bench.input_tensors(index)
    return bench.output_tensors(index) + [inputs[i] for i in expected.mutated]


def as_check(workload: str, draw: str, passed: bool, finding: Finding) -> Check:
    """A finding as a record, errors relative to the oracle's rms."""
    scale = finding.value or 1.0
    secret = workload.startswith(hidden.PREFIX)
    return Check(
        workload="hidden" if secret else workload,
        hidden=secret,
        draw=draw,
        passed=passed,
        error_rms=finding.error / scale,
        bound_rms=finding.bound / scale,
        reference_rms=finding.reference / scale,
        worst="" if passed or secret else finding.worst,
        place="" if passed else finding.place or "whole",
    )


def _pooled(findings: list[list[Finding]]) -> list[tuple[bool, Finding]]:
    """Over all repeats, leaf by leaf."""
    return [pool(list(leaf)) for leaf in zip(*findings, strict=True)]


def _open(findings: list[list[Finding]], few: list[bool]) -> bool:
    """Whether something is beyond its bound, and all of that may be bad luck: one draw's error is, of few elements."""
    refused = [(finding, few[leaf]) for leaf, (passed, finding) in enumerate(_pooled(findings)) if not passed]
    return bool(refused) and all(small and finding.maybe_unlucky for finding, small in refused)


def _badness(finding: Finding) -> float:
    return finding.error / finding.bound if finding.bound else finding.error
