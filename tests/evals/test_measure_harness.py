"""The reference handed in as a candidate is the reference, and a harness that refuses it is an error."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripted.collaborators import ScriptedHarness

from warpsmith.evals import measure_harness
from warpsmith.evals.measure_harness import flips, identity, identity_ratios, per_minute
from warpsmith.evals.suite import SUITE, SuiteProblem
from warpsmith.state.candidate import Candidate
from warpsmith.state.errors import InfraError
from warpsmith.state.evaluation import Evaluation, Tier
from warpsmith.state.problem import Problem, Workload


def problem_of(entry: SuiteProblem) -> Problem:
    return Problem(
        name=entry.name, path=str(entry.path), source=entry.path.read_text(), workloads=(Workload(name="w"),)
    )


def test_identity_is_the_reference_under_the_candidates_name() -> None:
    source = identity(problem_of(SUITE[0]), 3).source
    assert source.startswith(SUITE[0].path.read_text())
    assert "\nModelNew = Model\n" in source


def test_every_run_is_a_new_candidate() -> None:
    problem = problem_of(SUITE[0])
    assert len({identity(problem, run).id for run in range(20)}) == 20


class Slotted(ScriptedHarness):
    """The scripted harness judges by the slots in the source, which the reference as a candidate has none of."""

    fate = ""

    def evaluate(self, problem: Problem, candidate: Candidate, tier: Tier = "quick") -> Evaluation:
        slots = {"tile": 64, "stages": 1, "fate": self.fate}
        return super().evaluate(problem, candidate.model_copy(update={"source": f"slots = {slots!r}"}), tier)


def test_a_ratio_for_every_run() -> None:
    assert identity_ratios(Slotted(), problem_of(SUITE[0]), 3) == pytest.approx([2.0] * 3)


def test_a_refused_reference_is_the_harnesss_fault() -> None:
    harness = Slotted()
    harness.fate = "wrong"
    with pytest.raises(InfraError, match="the reference itself is incorrect_numerical"):
        identity_ratios(harness, problem_of(SUITE[0]), 1)


def test_rates_count_every_candidate_once(tmp_path: Path) -> None:
    harness = Slotted(delay_s=0.02)
    problem = problem_of(SUITE[0])
    rate = per_minute(harness, problem, [identity(problem, run) for run in range(8)], threads=4)
    assert len([call for call in harness.calls if call[0] == "quick"]) == 8
    assert harness.most_at_once > 1
    assert 60 * 8 / 2 < rate < 60 * 8 / 0.04


def test_flips_are_those_of_honest_controls(tmp_path: Path) -> None:
    def row(kind: str, *statuses: str) -> dict[str, object]:
        verdicts = [{"status": status, "accepted": status == "passed"} for status in statuses]
        fixed = {"family": "x", "problem": "x", "expect": ["passed"], "idea": "x", "source_id": "x"}
        return {"name": f"{kind}/{'-'.join(statuses)}", "kind": kind, "verdicts": verdicts, **fixed}

    file = tmp_path / "museum.json"
    rows = [
        row("honest", "passed", "passed"),
        row("honest", "passed", "unverified"),
        row("hostile", "timeout", "unsafe"),
    ]
    about = {"honest_total": 2, "honest_accepted": 1, "commit": "c", "command": "m"}
    file.write_text(json.dumps({**about, "rows": rows}))
    assert flips(file) == {"flips": 1, "repeat": 2, **about}


def test_one_that_is_cut_off_keeps_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_off(_options: object, language: str) -> dict[str, Any]:
        if language == "cuda":
            raise KeyboardInterrupt
        cached = {"seconds": 1.0, "besides_own_run_s": 0.9, "stages": {"check": 0.2}}
        return {"per_minute": 66.0, "cached": cached, "candidates": 40}

    monkeypatch.setattr(measure_harness, "throughput", cut_off)
    monkeypatch.setattr(measure_harness, "open_bench", lambda *_: SimpleNamespace(harness=Slotted(), close=lambda: 0))
    out = tmp_path / "harness.json"
    with pytest.raises(KeyboardInterrupt):
        measure_harness.main(["--out", str(out), "--problems", SUITE[0].name, "--runs", "2"])
    found = json.loads(out.read_text())
    assert found["identity_ratio"] == 2.0
    assert found["candidates_per_minute"] == {"triton": 66.0}
    assert found["complete"] is False
    assert found["command"].startswith("python -m warpsmith.evals.measure_harness")
