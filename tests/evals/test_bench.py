"""The runners on the real controller with scripted collaborators: rows, baselines, and a harness that breaks."""

import json
from pathlib import Path

import pytest
from scripted.collaborators import ScriptedHarness, ScriptedPlanner, ScriptedWriter

from warpsmith.evals.run_baselines import main, run_baselines
from warpsmith.evals.run_suite import SuiteRun, run_suite
from warpsmith.evals.suite import SUITE
from warpsmith.graph.bench import Bench
from warpsmith.graph.services import Collaborators
from warpsmith.state.errors import InfraError
from warpsmith.state.problem import Problem
from warpsmith.state.timing import Baselines

TWO = SUITE[:2]


def scripted(harness: ScriptedHarness) -> Collaborators:
    writers = {language: ScriptedWriter(language) for language in ("triton", "cuda")}
    return Collaborators(harness=harness, planner=ScriptedPlanner(), writers=writers)


def test_suite_rows_come_from_whole_runs(tmp_path: Path) -> None:
    """Scripted kernels: the best tile gives 2.0, CUDA 1.1 of it, three more stages 5% each."""
    bench = Bench(scripted(ScriptedHarness()), out=str(tmp_path / "runs"), budget=30)
    run_suite(SuiteRun(problems=TWO, out=tmp_path / "suite.json"), bench.optimize, lambda line: None)
    content = json.loads((tmp_path / "suite.json").read_text())
    for row in content["problems"]:
        assert row["status"] == "passed"
        assert row["verdict"] == "win"
        assert row["speedup"] > 2.0
        assert row["eager_ms"] == 2 * row["best_baseline_ms"]
        assert row["best_baseline"] == "compile"
        assert row["best_ms"] == min(row["best_triton_ms"], row["best_cuda_ms"])
        assert row["candidates_tried"] > 0
    assert content["gpu"] == "Scripted H200"


def test_a_dry_runs_rows_are_estimates(tmp_path: Path) -> None:
    bench = Bench(scripted(ScriptedHarness(dry=True)), out=str(tmp_path / "runs"), budget=6)
    run_suite(SuiteRun(problems=TWO[:1], out=tmp_path / "suite.json"), bench.optimize, lambda line: None)
    content = json.loads((tmp_path / "suite.json").read_text())
    assert content["dry_run"] is True
    assert content["fast_0"] == 0.0
    assert content["problems"][0]["status"] == "unverified"
    assert content["problems"][0]["speedup"] is None
    assert content["problems"][0]["estimated_sol_fraction"] > 0


class BreaksOnce(ScriptedHarness):
    """Loses the GPU at the first baseline that it is asked for."""

    broken = False

    def baseline(self, problem: Problem) -> Baselines:
        if not self.broken:
            self.broken = True
            raise InfraError("GPU 0 is gone")
        return super().baseline(problem)


def test_one_failed_baseline_does_not_cost_the_others(tmp_path: Path) -> None:
    lines: list[str] = []
    bench = Bench(scripted(BreaksOnce()), out=str(tmp_path))
    assert run_baselines(TWO, bench, lines.append) == [TWO[0].name]
    assert "GPU 0 is gone" in lines[0]
    assert "eager 2, compile 1" in lines[1]


def test_baselines_refuse_an_unknown_problem_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--problems", "nonsense"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
