"""Judges that are opened, closed and opened again: what one was told the next one is told as well."""

import threading
from typing import Any

import pytest

from warpsmith.state.errors import InfraError
from warpsmith.state.problem import Problem, Workload
from warpsmith.tools import judges as module
from warpsmith.tools.judges import JudgePlan, Judges

NEAR = Workload(name="near", inputs=({},)).model_dump(mode="json")


class Handle:
    """Stands for a judge's process, and notes what it is asked."""

    made: list["Handle"] = []
    refuses = ""

    def __init__(self, _server: object, params: dict[str, Any]) -> None:
        self.params, self.alive = params, True
        self.asked: list[tuple[str, dict[str, Any]]] = []
        Handle.made.append(self)

    def ask(self, op: str, _deadline_s: float, **fields: Any) -> dict[str, Any]:
        if op == self.refuses:
            raise InfraError("no")
        self.asked.append((op, fields))
        return {"neighbour": NEAR}

    def close(self) -> None:
        self.alive = False

    @property
    def ops(self) -> list[str]:
        return [op for op, _ in self.asked]


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Judges:
    monkeypatch.setattr(module, "JudgeHandle", Handle)
    monkeypatch.setattr(Handle, "made", [])
    plan = JudgePlan(bounds=lambda _: {"w": {"floor_ms": 1.0}}, best_baselines=lambda _: {"w": "compile"})
    return Judges(None, plan, threading.RLock())  # type: ignore[arg-type]


def problem(source: str = "a") -> Problem:
    return Problem(name="p", path="p.py", source=source, workloads=(Workload(name="w", inputs=({},)),))


def test_one_is_open_at_a_time(judges: Judges) -> None:
    first = judges.of(problem())
    assert judges.of(problem()) is first
    judges.of(problem("b"))
    assert [handle.alive for handle in Handle.made] == [False, True]
    assert (judges.alive(problem()), judges.alive(problem("b"))) == (False, True)


def test_one_that_is_opened_again_knows_baselines_and_calibration(judges: Judges) -> None:
    judges.use_baselines(problem())
    assert not judges.calibrated(problem())
    judges.calibrate(problem(), {"w": 0.25})
    assert judges.hidden(problem())[0].name == "near"
    judges.close()
    judges.of(problem())
    again = Handle.made[-1]
    assert again.ops == ["open", "use_baselines"]
    assert again.asked[0][1]["hop_ms"] == {"w": 0.25}
    assert again.asked[1][1]["best_baseline"] == {"w": "compile"}
    assert judges.calibrated(problem())


def test_of_another_problem_nothing_is_carried_over(judges: Judges) -> None:
    judges.use_baselines(problem())
    judges.calibrate(problem(), {"w": 0.25})
    judges.of(problem("b"))
    assert Handle.made[-1].asked == [("open", Handle.made[-1].asked[0][1])]
    assert Handle.made[-1].asked[0][1]["hop_ms"] == {}
    assert judges.hidden(problem("b")) == ()


def test_baselines_are_used_by_a_judge_that_has_to_be_opened_first(judges: Judges) -> None:
    judges.use_baselines(problem())
    judges.close()
    judges.use_baselines(problem())
    assert Handle.made[-1].ops[0] == "open"


def test_one_that_draws_anew_keeps_its_baselines(judges: Judges) -> None:
    judges.use_baselines(problem())
    judges.renew(problem())
    assert Handle.made[-1].ops == ["open", "use_baselines", "renew", "use_baselines"]


def test_one_that_does_not_open_is_ended_and_not_kept(judges: Judges, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handle, "refuses", "open")
    with pytest.raises(InfraError):
        judges.of(problem())
    assert not Handle.made[-1].alive
    assert not judges.alive(problem())
