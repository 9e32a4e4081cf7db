"""The judges of a harness: one at a time owns the GPU, and one that is opened again is told what the last one was."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..state.errors import InfraError
from ..state.problem import Problem, Workload
from .fork_server import ForkServer
from .judge_handle import JudgeHandle

OPEN_S, BASELINE_S = 180.0, 400.0


@dataclass(frozen=True)
class JudgePlan:
    """What every judge of a harness is started with, and what it is told of its problem."""

    bounds: Callable[[Problem], dict[str, dict[str, float]]]
    """Void bound and speed of light, by workload."""
    best_baselines: Callable[[Problem], dict[str, str]]
    """Name of the best baseline that is known, by workload."""
    params: dict[str, Any] = field(default_factory=dict)
    """For its process: device, blocking kernel, work folder."""


class Judges:
    """Opens judges and ends them. The caller holds the lock of the GPU; `quiet` is held while baselines are timed."""

    def __init__(self, server: ForkServer, plan: JudgePlan, quiet: threading.RLock) -> None:
        self._server = server
        self._plan = plan
        self._quiet = quiet
        self._open: dict[str, JudgeHandle] = {}
        self._hidden: dict[str, tuple[Workload, ...]] = {}
        self._with_baselines: set[str] = set()
        """Problems whose judges compare with a baseline, also when they are opened again."""
        self._hop_ms: dict[str, dict[str, float]] = {}
        """What a burst costs beside its calls, by problem and workload: measured with the reference as a candidate."""

    def of(self, problem: Problem) -> JudgeHandle:
        """The problem's judge; opening another problem closes the last one's. Raises InvalidProblem or InfraError."""
        judge = self._open.get(problem.id)
        if judge is not None and judge.alive:
            return judge
        self.close()
        judge = JudgeHandle(self._server, self._plan.params)
        told = {"bounds": self._plan.bounds(problem), "hop_ms": self._hop_ms.get(problem.id, {})}
        try:
            judge.ask("open", OPEN_S, problem=problem.model_dump(mode="json"), **told)
        except BaseException:
            judge.close()  # nobody else knows of it, and it has the GPU open
            raise
        self._open[problem.id] = judge
        if problem.id in self._with_baselines:
            self._tell_baselines(problem, judge)
        return judge

    def vet(self, problem: Problem) -> tuple[str, ...]:
        """Notes on a problem. Raises InvalidProblem or InfraError."""
        judge = self.of(problem)
        try:
            return tuple(judge.ask("vet", OPEN_S)["notes"])
        except InfraError as error:
            if judge.alive:
                raise
            # Whose fault that is cannot be seen from here: a device that fails ends the process as `os._exit` does.
            text = f"the process that ran forward died or did not end within {OPEN_S:.0f} s ({error.__cause__})"
            raise InfraError(
                f"{problem.path}: {text}; see that forward neither exits nor hangs, then try again"
            ) from error

    def renew(self, problem: Problem) -> None:
        """Has a judge draw anew whatever it drew."""
        self.of(problem).ask("renew", OPEN_S)
        if problem.id in self._with_baselines:
            self.use_baselines(problem)

    def use_baselines(self, problem: Problem) -> None:
        """Has the best ones built in the judge: cached times do not spare that, as candidates are timed beside them."""
        self._tell_baselines(problem, self.of(problem))

    def _tell_baselines(self, problem: Problem, judge: JudgeHandle) -> None:
        best = self._plan.best_baselines(problem)
        with self._quiet:
            reply = judge.ask("use_baselines", BASELINE_S, best_baseline=best)
        self._with_baselines.add(problem.id)
        near = reply["neighbour"]
        self._hidden[problem.id] = (Workload.model_validate(near),) if near else ()

    def hidden(self, problem: Problem) -> tuple[Workload, ...]:
        """Shapes that candidates are judged on and nobody is told, to compile for ahead."""
        return self._hidden.get(problem.id, ())

    def calibrated(self, problem: Problem) -> bool:
        """Whether the reference was judged as a candidate: then its judges know what a burst costs."""
        return problem.id in self._hop_ms

    def calibrate(self, problem: Problem, hop_ms: dict[str, float]) -> None:
        """Keeps that for judges of the problem that are opened later."""
        self._hop_ms[problem.id] = hop_ms

    def alive(self, problem: Problem) -> bool:
        return problem.id in self._open and self._open[problem.id].alive

    def close(self) -> None:
        closing, self._open = self._open, {}
        for judge in closing.values():
            judge.close()
