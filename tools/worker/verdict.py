"""From a candidate to its evaluation: correctness first, then time, and a failure ends there."""

import time
from typing import TYPE_CHECKING, Any

import torch

from ...state.evaluation import Check, Evaluation, Status
from ...state.problem import Workload
from ...state.timing import Timing
from .. import statistics
from ..fork_server import Spawn
from . import compare, draws, pairs, structure, weights
from .buffers import Layout, allocate, spec_of
from .expectation import Expectation, Finding, Leaf, check_layout, check_leaf, expect, pool
from .session import CandidateFailed, Session

if TYPE_CHECKING:
    from .judge import Judge

_QUICK_KINDS = ("problem", "normal", "spike", "negative")
_REPEATS_BELOW = 4096
"""Outputs with fewer elements are judged over several repeats, pooled."""
_REPEATS = 8
_LOAD_S = 120.0
_CALL_S = 60.0
"""Longest call that may still have to compile."""
_COMPILED_CALL_S = 10.0
_MEASUREMENTS = 4
"""The first and up to three more when the spread is too large."""


def judge_candidate(judge: "Judge", body: dict[str, Any]) -> Evaluation:
    """Everything from the fork to the verdict. Raises InfraError only for our own faults."""
    started = time.perf_counter()
    tier, candidate = body["tier"], body["candidate"]
    request = Spawn("candidate", {"device": str(judge.device)}, body["box"], int(body["max_memory_bytes"]))
    checks: list[Check] = []
    facts: dict[str, Any] = {"candidate": candidate, "problem": judge.problem.id, "tier": tier}
    status, message = Status.PASSED, ""
    session = Session(judge.server, request)
    try:
        with session:
            trial = Trial(judge, session, body)
            trial.prepare()
            for workload, kinds in _battery(judge, tier):
                for kind in kinds:
                    checks.append(trial.check(workload, kind))
                    if not checks[-1].passed:
                        text = f"wrong on a {kind} draw of {workload.name}: {checks[-1].worst}"
                        raise CandidateFailed(Status.INCORRECT_NUMERICAL, text)
            facts["timings"] = tuple(trial.time(w) for w in _timed(judge, tier))
            facts["error_class"] = trial.error_class
    except CandidateFailed as failure:
        status, message = failure.status, failure.message
        checks.extend([failure.check] if failure.check else [])
        facts.pop("timings", None)
    if session.crashed:
        judge.probe()
    facts["notes"] = tuple(session.notes)
    if status is Status.PASSED:
        status, message, facts = _settle(judge, facts)
    return Evaluation(
        status=status, message=message, checks=tuple(checks), seconds=time.perf_counter() - started, **facts
    )


def _settle(judge: "Judge", facts: dict[str, Any]) -> tuple[Status, str, dict[str, Any]]:
    """What a numerically right candidate is: passed, or unverified with the reason."""
    timings: tuple[Timing, ...] = facts["timings"]
    if judge.device.type == "cpu":
        return Status.UNVERIFIED, "checked without a GPU: untimed", {**facts, "timings": ()}
    impossible = next((t for t in timings if t.candidate.median_ms < t.floor_ms), None)
    if impossible is not None:
        text = f"{impossible.candidate.median_ms:.4f} ms on {impossible.workload} is below the void bound"
        return Status.UNVERIFIED, f"{text} {impossible.floor_ms:.4f} ms", facts
    unstable = next((t for t in timings if not t.stable), None)
    if unstable is not None:
        return Status.UNVERIFIED, f"timing unstable on {unstable.workload}: {unstable.note}", facts
    return Status.PASSED, "", facts


def _battery(judge: "Judge", tier: str) -> list[tuple[Workload, tuple[str, ...]]]:
    """Workloads and kinds of draws in the order of their cost; the primary workload last."""
    problem = judge.problem
    if judge.device.type == "cpu":
        return [(problem.smallest, _QUICK_KINDS if tier == "quick" else draws.KINDS)]
    others = sorted((w for w in problem.workloads[1:]), key=lambda w: w.input_bytes)
    kinds = draws.KINDS if tier != "quick" else _QUICK_KINDS
    return [(w, kinds if tier != "quick" else ("normal",)) for w in others] + [(problem.primary, kinds)]


def _timed(judge: "Judge", tier: str) -> list[Workload]:
    if judge.device.type == "cpu":
        return [judge.problem.smallest]
    return [judge.problem.primary] if tier == "quick" else list(judge.problem.workloads)


class Trial:
    """One candidate in its process, with the instances that the judge made of it."""

    def __init__(self, judge: "Judge", session: Session, body: dict[str, Any]) -> None:
        self.judge = judge
        self.session = session
        self.path = str(body["path"])
        self.baseline = body.get("baseline")
        self.call_s = _COMPILED_CALL_S if body.get("compiled") else _CALL_S
        self.setup_ms = 0.0
        self.mapped = ""
        self._roundoffs: list[float] = []

    def prepare(self) -> None:
        """Loads the file, makes two instances, gives them the reference's weights."""
        self.session.ask("load", _LOAD_S, path=self.path)
        judge = self.judge
        first = self._construct("timed", judge.model_seed)
        mapping = self._mapping(first["state"])
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
            fd = buffer.export()
        else:
            import os

            fd = os.dup(buffer.export())
        reply = self.session.ask(
            "weights", _LOAD_S, [fd], instance=instance, names=list(mapping), layout=layout.as_json()
        )
        if instance == "timed":
            self.setup_ms += float(reply["setup_ms"])
        if self.judge.device.type == "cuda":
            buffer.release()  # type: ignore[union-attr]

    def map(self, workload: Workload, expected: Expectation) -> pairs.Bench:
        """Shows the child a workload's buffers, once in a row."""
        bench = self.judge.bench(workload, expected)
        if self.mapped != workload.name:
            fields, fds = bench.message()
            self.session.ask("workload", _LOAD_S, fds, **fields)
            self.mapped = workload.name
        return bench

    def check(self, workload: Workload, kind: str) -> Check:
        """One kind of draw: repeats where the output is small, pooled; random weights on all but the problem's own."""
        judge = self.judge
        instance = "timed" if kind == "problem" else "random"
        expected = judge.expectation(workload, kind, 0, instance)
        small = sum(leaf.oracle.numel() for leaf in expected.leaves) < _REPEATS_BELOW
        findings: list[list[Finding]] = []
        for number in range(_REPEATS if small and kind in ("problem", "normal") else 1):
            findings.append(self._compare(workload, kind, number, instance))
        return self._summary(workload, kind, findings)

    def _compare(self, workload: Workload, kind: str, number: int, instance: str) -> list[Finding]:
        judge = self.judge
        expected = judge.expectation(workload, kind, number, instance)
        bench = self.map(workload, expected)
        inputs = judge.inputs(workload, kind, number)
        bench.write(inputs)
        reply = self.session.ask("call", self.call_s, instance=instance, lead_ms=0.0)
        check_layout(reply, expected)
        _, written = structure.flatten(inputs)
        now = bench.input_tensors()
        for index, value in enumerate(written):
            if index not in expected.mutated and not pairs.same_values(value, now[index]):
                text = f"changes its input {index}, which the reference leaves alone"
                raise CandidateFailed(Status.CONTRACT_ERROR, text)
        delivered = bench.output_tensors() + [now[i] for i in expected.mutated]
        return [check_leaf(actual, leaf) for actual, leaf in zip(delivered, expected.leaves, strict=True)]

    def _summary(self, workload: Workload, kind: str, findings: list[list[Finding]]) -> Check:
        """The worst leaf decides; its numbers are shown, relative to the oracle's rms."""
        worst: tuple[bool, Finding] | None = None
        for leaf in zip(*findings, strict=True):
            passed, pooled = pool(list(leaf))
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

    @property
    def error_class(self) -> str:
        """The precision that the largest error looks like."""
        return compare.error_class(max(self._roundoffs)) if self._roundoffs else ""

    def time(self, workload: Workload) -> Timing:
        """Pairs against the best baseline, again while the spread is too large."""
        judge = self.judge
        expected = judge.expectation(workload, "problem", 0, "timed")
        name = self.baseline or judge.best_baseline.get(workload.name, "eager")
        duel = pairs.Duel(
            session=self.session,
            bench=self.map(workload, expected),
            own=judge.own(name, workload),
            expected=expected,
            draw=lambda number: judge.inputs(workload, "problem", number),
            verify=Verifier(judge, workload.name, expected).verify,
            flush=judge.flush,
        )
        plan = pairs.Plan(deadline_s=self.call_s) if judge.device.type == "cuda" else pairs.Plan(pairs=4, warm_ups=2)
        for _ in range(_MEASUREMENTS if judge.device.type == "cuda" else 1):
            found = pairs.run_pairs(duel, plan)
            if statistics.spread(found.candidate_ms) <= statistics.SPREAD_LIMIT:
                break
        return self._timing(workload, name, found)

    def _timing(self, workload: Workload, baseline_name: str, found: pairs.Pairs) -> Timing:
        candidate, baseline = statistics.sample(found.candidate_ms), statistics.sample(found.baseline_ms)
        bounds = self.judge.bounds.get(workload.name, {})
        spread = statistics.spread(found.candidate_ms)
        stable = spread <= statistics.SPREAD_LIMIT
        return Timing(
            workload=workload.name,
            candidate=candidate,
            baseline=baseline,
            baseline_name=baseline_name,
            speedup=baseline.median_ms / candidate.median_ms,
            verdict=statistics.paired_verdict(found.baseline_ms, found.candidate_ms),
            stable=stable,
            note="" if stable else f"spread {spread:.1%} of the median after {_MEASUREMENTS} measurements",
            wall_ms=sorted(found.wall_ms)[len(found.wall_ms) // 2],
            first_call_ms=found.first_call_ms,
            setup_ms=self.setup_ms,
            floor_ms=bounds.get("floor_ms", 0.0),
            sol_ms=bounds.get("sol_ms", 0.0),
        )


def as_check(workload: str, draw: str, passed: bool, finding: Finding) -> Check:
    """A finding as a record, errors relative to the oracle's rms."""
    scale = finding.value or 1.0
    return Check(
        workload=workload,
        draw=draw,
        passed=passed,
        error_rms=finding.error / scale,
        bound_rms=finding.bound / scale,
        reference_rms=finding.reference / scale,
        worst="" if passed else finding.worst,
    )


def _badness(finding: Finding) -> float:
    return finding.error / finding.bound if finding.bound else finding.error


class Verifier:
    """Judges the outputs of timed calls: against the baseline's on the same inputs, and by the oracle where those
    disagree, on the first and last call, and on a random tenth."""

    def __init__(self, judge: "Judge", workload: str, expected: Expectation) -> None:
        self.judge = judge
        self.workload = workload
        self.expected = expected
        self.audited = {0} | {draws.fresh_seed() % 50 for _ in range(2)}

    def verify(
        self, number: int, inputs: list[Any], delivered: list[torch.Tensor], baseline_output: list[torch.Tensor]
    ) -> None:
        leaves = self.expected.leaves
        agree = all(_close(got, own, leaf) for got, own, leaf in zip(delivered, baseline_output, leaves, strict=False))
        if agree and number not in self.audited:
            return
        expected = expect(self.judge.models["timed"], inputs, self.judge.unit_in)
        for got, leaf in zip(delivered, expected.leaves, strict=False):
            passed, finding = pool([check_leaf(got, leaf)])
            # One draw of a few elements can be unlucky; pooled draws were checked before.
            unlucky = leaf.oracle.numel() < _REPEATS_BELOW and finding.sound and finding.error <= 4 * finding.bound
            if not passed and not unlucky:
                check = as_check(self.workload, "timed", passed=False, finding=finding)
                raise CandidateFailed(
                    Status.INCORRECT_NUMERICAL,
                    f"right when checked, wrong in timed call {number}: {finding.worst}",
                    check,
                )


def _close(got: torch.Tensor, own: torch.Tensor, leaf: Leaf) -> bool:
    """Whether a timed call's output is where the baseline's is; the oracle decides if not."""
    if got.shape != own.shape or got.dtype != own.dtype:
        return False
    if not got.is_floating_point():
        return bool(torch.equal(got, own))
    difference = got.float() - own.float()
    count = max(1, difference.numel())
    # NaN anywhere makes both False, and the oracle looks closer.
    rms = float(torch.linalg.vector_norm(difference)) / count**0.5
    return rms <= leaf.bound_rms and float(difference.abs_().max()) <= leaf.element_limit if count else True
