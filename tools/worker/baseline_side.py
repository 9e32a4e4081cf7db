"""The judge's own side of every measurement: baselines, each built once a workload, and what they take alone."""

from typing import TYPE_CHECKING, Any

from ...state.errors import InvalidProblem
from ...state.problem import Workload
from ...state.timing import Baseline
from .. import statistics
from . import baselines
from .expectation import clone_nested
from .own_calls import OwnCalls
from .problem_module import first_line

if TYPE_CHECKING:
    from .judge import Judge

_ALONE_SAMPLES, _WARM_UPS = 15, 3
_SAMPLES, _THOROUGH_WARM_UPS = 50, 10


class BaselineSide:
    """Baselines of one judge, on its draws and its weights."""

    def __init__(self, judge: "Judge") -> None:
        self.judge = judge
        self.best: dict[str, str] = {}
        """The best baseline's name, by workload."""
        self.alone_ms: dict[tuple[str, str], float] = {}
        """Time of a baseline on a workload while no candidate was there."""
        self._calls: dict[tuple[str, str], OwnCalls] = {}

    def name(self, workload: Workload) -> str:
        """Of the baseline that candidates are timed beside."""
        return self.best.get(workload.name, "eager")

    def calls(self, name: str, workload: Workload) -> OwnCalls:
        """A baseline's calls, warmed up on a workload (compiled if need be)."""
        key = (name, workload.name)
        if key not in self._calls:
            made, _ = self._build(name, workload, _WARM_UPS)
            self._calls[key] = made
            self.alone_ms[key] = statistics.sample(self._times(made, workload, _ALONE_SAMPLES)).median_ms
        return self._calls[key]

    def use(self, best: dict[str, str]) -> None:
        """Takes the best baselines to interleave with and gets them ready, while no candidate is there to slow them."""
        self.best = best
        for workload, name in best.items():
            self.calls(name, self.judge.workload(workload))

    def time(self, body: dict[str, Any]) -> dict[str, Any]:
        """Times one baseline on one workload as candidates are timed: flushed, fresh inputs."""
        name, workload = body["name"], self.judge.workload(body["workload"])
        try:
            made, seconds = self._build(name, workload, _THOROUGH_WARM_UPS)
        except InvalidProblem:
            raise
        except Exception as error:  # noqa: BLE001 - a baseline that does not build is a fact to show, not our fault
            return Baseline(name=name, workload=workload.name, ms=None, error=first_line(error)).model_dump()
        summary = statistics.sample(self._times(made, workload, int(body.get("samples", _SAMPLES))))
        self._calls[(name, workload.name)] = made
        self.alone_ms[(name, workload.name)] = summary.median_ms
        return Baseline(
            name=name,
            workload=workload.name,
            ms=summary.median_ms,
            std_ms=summary.std_ms,
            build_seconds=seconds,
        ).model_dump()

    def forget(self) -> None:
        """Lets go of what was built on weights that are no longer the judge's."""
        self._calls.clear()
        self.alone_ms.clear()

    def _build(self, name: str, workload: Workload, warm_ups: int) -> tuple[OwnCalls, float]:
        """A baseline that is compiled and warm, and the seconds of its first call."""
        call = baselines.build(name, self.judge.module, self.judge.models["timed"])
        made = OwnCalls(call, self.judge.stopwatch, self.judge.switch)
        arguments = self.judge.inputs(workload, "problem", -1)
        seconds = baselines.first_call(call, clone_nested(arguments))
        made.warm_up(arguments, warm_ups)
        return made, seconds

    def _times(self, calls: OwnCalls, workload: Workload, samples: int) -> list[float]:
        """Times of a baseline as candidates are timed: flushed, fresh inputs, the launch hidden; in ms."""
        judge, times = self.judge, []
        for number in range(samples):
            values = judge.inputs(workload, "problem", number)
            for _ in range(3):
                arguments = clone_nested(values)  # before the flush: a copy made after it would lie in the cache
                judge.flush()
                milliseconds = calls.time(arguments)[1]
                if not calls.lead.exposed and not calls.late:
                    break
            times.append(max(milliseconds - judge.event_ms, 1e-6))
        return times
