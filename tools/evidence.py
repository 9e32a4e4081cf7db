"""What is asked from outside about a kernel that passed, and what it changes about the verdict.

At `full`: memcheck and racecheck on a small workload of odd sizes, and the same inputs in two processes with different
hash seeds. At `record` also initcheck, synccheck, and the profiler's kernel durations against the judge's timing.
"""

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

from ..state.candidate import Candidate
from ..state.errors import InfraError
from ..state.evaluation import Evaluation, Status, Tier
from ..state.evidence import Evidence, KernelUse, ProfilerTiming, Reproduction, SanitizerResult, SanitizerTool
from ..state.problem import Problem
from ..state.profile import Profile
from ..state.timing import Timing
from . import kernel_names
from .compile_pool import Compiled
from .judge_handle import JudgeHandle
from .outside import CannotRun, Job, Order, Outside
from .profiling.profiler import Profiler
from .sanitizing import compute_sanitizer, sanitizer

_FULL_TOOLS: tuple[SanitizerTool, ...] = ("memcheck", "racecheck")
_HASH_SEEDS = (1, 2)
_REPRODUCED_BYTES = 1 << 30
_COMPARE_S = 120.0
_TIMING, _COUNTERS = "timing", "counters"
"""Gates of a job's programs."""


Durations = tuple[ProfilerTiming | None, tuple[KernelUse, ...], str]
"""The profiler's times against the judge's, kernels by share, and why there are none."""
_NO_DURATIONS: Durations = (None, (), "")


class Witnesses:
    """Profiler, sanitizers and fresh processes. The caller sees to it that nothing is timed meanwhile."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._profiler = Profiler(outside)
        self._profiles: dict[tuple[str, str], Profile] = {}
        """Counters by problem and candidate, as the record tier took them."""

    def profile(self, judge: JudgeHandle, problem: Problem, candidate: Candidate, compiled: Compiled) -> Profile:
        """Counters on the primary workload, or the reason for none."""
        known = self._profiles.get((problem.id, candidate.id))
        if known is not None:
            return known
        try:
            with self._outside.job(judge, problem, candidate, compiled, problem.primary.name) as job:
                return self._profiler.profile(job, own_names(candidate, compiled))
        except (CannotRun, InfraError) as error:
            return Profile(candidate=candidate.id, reason=f"not profiled ({_first_line(error)})")

    def gather(
        self, judge: JudgeHandle, problem: Problem, candidate: Candidate, compiled: Compiled, found: Evaluation
    ) -> Evidence:
        """All evidence that the evaluation's tier asks for. Whatever cannot be had says why, and accuses nobody."""
        started = time.monotonic()
        own = own_names(candidate, compiled)
        accused = own | kernel_names.own_kernel_names(candidate.source)

        def job(workload: str) -> Any:
            return self._outside.job(judge, problem, candidate, compiled, workload)

        tools = compute_sanitizer.TOOLS if found.tier == "record" else _FULL_TOOLS
        timing = found.primary if found.tier == "record" else None
        durations = _NO_DURATIONS
        try:
            with job("") as small, job(_reproduced(problem)) as large, ExitStack() as held:
                primary = None
                if timing is not None:
                    primary = large if timing.workload == large.workload else held.enter_context(job(timing.workload))
                with ThreadPoolExecutor(2) as aside:
                    # Until their gates open they only import their libraries: nothing runs beside calls that are timed.
                    timed = aside.submit(self._durations, primary, timing, own)
                    counted = aside.submit(self._counters, primary, own)
                    try:
                        sanitized, reproduced = self._side_by_side(judge, small, large, tools, accused)
                        _open(primary, _TIMING)
                        durations = timed.result()
                    finally:
                        _open(primary, _TIMING)
                        _open(primary, _COUNTERS)
                    counted.result()
        except (CannotRun, InfraError) as error:
            why = _first_line(error)
            sanitized = [compute_sanitizer.not_run(tool, why) for tool in tools]
            reproduced = Reproduction(workload=_reproduced(problem), runs=0, reason=why)
            durations = (None, (), why if timing is not None else "")
        profiler, kernels, reason = durations
        return Evidence(
            sanitizers=tuple(sanitized),
            reproduction=reproduced,
            profiler=profiler,
            profiler_reason=reason,
            kernels=kernels or traced(found, own),
            kernels_from="profiler" if kernels else "trace" if found.kernels else "",
            notes=self._outside.gaps(),
            seconds=time.monotonic() - started,
        )

    def _side_by_side(
        self, judge: JudgeHandle, small: Job, large: Job, tools: tuple[SanitizerTool, ...], own: set[str]
    ) -> tuple[list[SanitizerResult], Reproduction]:
        """Nothing here is timed, so all programs run at once: starting one costs seconds of one core."""
        orders = [Order(deliver=True, hash_seed=seed) for seed in _HASH_SEEDS]
        with ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 2))) as pool:
            checks = [pool.submit(sanitizer.check, self._outside, small, tool, own) for tool in tools]
            runs = [pool.submit(self._outside.run, large, order) for order in orders]
            paths = [path for path in map(_outputs, runs) if path]
            sanitized = [check.result() for check in checks]
        try:
            reply = judge.ask("compare_runs", _COMPARE_S, workload=large.workload, paths=paths)
        except InfraError as error:
            reply = {"runs": len(paths), "reason": _first_line(error)}
        return sanitized, Reproduction.model_validate({"workload": large.workload, **reply})

    def _durations(self, job: Job | None, timing: Timing | None, own: set[str]) -> Durations:
        if job is None or timing is None:
            return _NO_DURATIONS
        try:
            profiler, kernels = self._profiler.durations(job, timing, own, _TIMING)
        except (CannotRun, InfraError) as error:
            return None, (), _first_line(error)
        return profiler, kernels, ""

    def _counters(self, job: Job | None, own: set[str]) -> None:
        """Keeps the counters for whoever asks for the candidate's profile afterwards.

        Without them everything else that was seen still counts: no candidate gets rid of a hazard by losing these.
        """
        if job is None:
            return
        with suppress(CannotRun, InfraError):
            found = self._profiler.profile(job, own, _COUNTERS)
            if found.kernels:
                self._profiles[job.problem.id, job.candidate.id] = found


def _open(job: Job | None, gate: str) -> None:
    if job is not None:
        job.open_gate(gate)


def own_names(candidate: Candidate, compiled: Compiled) -> set[str]:
    """Names of the candidate's own kernels, from its source and from what its compile met."""
    return kernel_names.credited_names(candidate.source, (kernel.name for kernel in compiled.report.kernels))


def traced(found: Evaluation, own: set[str]) -> tuple[KernelUse, ...]:
    """Kernels as the trace inside the candidate's process has them; it counts no launches, so each counts once."""
    total_ms = sum(found.kernels.values())
    return tuple(
        KernelUse(
            name=name,
            kind=kernel_names.credited_kind(name, own),
            launches=1,
            ms=ms,
            share=min(1.0, ms / total_ms) if total_ms > 0 else 0.0,
        )
        for name, ms in sorted(found.kernels.items(), key=lambda item: -item[1])
    )


def wanted(found: Evaluation, tiers: tuple[Tier, ...]) -> bool:
    """Whether a verdict is worth looking at from outside."""
    return found.tier in tiers and found.status is Status.PASSED


def settled(found: Evaluation, evidence: Evidence) -> Evaluation:
    """The verdict with the evidence in it. A hazard or a different answer fails; a time that cannot be is unverified.

    What could not be asked changes nothing but a label: then the verdict rests on the judge alone, and says so.
    """
    update: dict[str, Any] = {"evidence": evidence}
    labels = list(found.labels)
    if evidence.kernels:
        update["kernels"] = {kernel.name: kernel.ms for kernel in evidence.kernels}
        own_share = sum(kernel.share for kernel in evidence.kernels if kernel.kind == "own")
        update["custom_share"] = min(1.0, own_share)
        if not {"own", "other"} & {kernel.kind for kernel in evidence.kernels}:
            labels.append("torch_only")
    reproduction = evidence.reproduction
    if reproduction is not None and reproduction.bitwise is False:
        labels.append("not_bitwise_reproducible")
    if found.tier == "record" and evidence.profiler is None:
        labels.append("no_profiler_evidence")
    if any(result.outcome == "not run" for result in evidence.sanitizers):
        labels.append("not_sanitized")
    update["labels"] = tuple(dict.fromkeys(labels))
    update["stage_seconds"] = {**found.stage_seconds, "evidence": evidence.seconds}
    status, message = _decided(evidence)
    if status is not None:
        update |= {"status": status, "message": message}
        if status is not Status.UNVERIFIED:
            update["timings"] = ()
    return Evaluation.model_validate(found.model_copy(update=update).model_dump())


def _decided(evidence: Evidence) -> tuple[Status | None, str]:
    hazard = compute_sanitizer.in_words(evidence.sanitizers)
    if hazard:
        return Status.UNSAFE, hazard
    reproduction, profiler = evidence.reproduction, evidence.profiler
    if reproduction is not None and reproduction.within_tolerance is False:
        return Status.NONDETERMINISTIC, reproduction.reason
    if profiler is not None and not profiler.agrees:
        return Status.UNVERIFIED, (
            f"timed as {profiler.judge_ms:.4f} ms on {profiler.workload}, but its kernels alone take "
            f"{profiler.busiest_stream_ms:.4f} ms by the profiler"
        )
    return None, ""


def _reproduced(problem: Problem) -> str:
    """The primary workload, or the smallest where that is too large to be written to files twice."""
    primary = problem.primary
    small = primary.input_bytes + primary.output_bytes <= _REPRODUCED_BYTES
    return primary.name if small else problem.smallest.name


def _outputs(run: "Future[Any]") -> str:
    """Path of what a program left; empty where it could not be run."""
    try:
        return str(run.result().outputs_path)
    except (CannotRun, InfraError):
        return ""


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__
