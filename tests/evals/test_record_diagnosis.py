"""Recording counters: kept after every kernel, never taken twice, and said plainly where they are not as expected."""

from pathlib import Path

import pytest
from scripted.collaborators import GPU, timing

from warpsmith.evals import record_diagnosis
from warpsmith.evals.diagnosis_set import collect, load
from warpsmith.graph.diagnosis import counters
from warpsmith.state.candidate import Candidate
from warpsmith.state.device import DeviceSheet
from warpsmith.state.evaluation import Check, Evaluation, Status, Tier
from warpsmith.state.lowered import LoweredGraph
from warpsmith.state.problem import Problem, Workload
from warpsmith.state.profile import KernelProfile, Profile


class ProfilingHarness:
    """Passes everything and says that DRAM is busy; after `breaks_after` candidates it knows no profiler."""

    def __init__(self, breaks_after: int = 99) -> None:
        self.judged: list[str] = []
        self.breaks_after = breaks_after

    def device(self) -> DeviceSheet:
        return GPU

    def load(self, path: Path) -> Problem:
        return Problem(name=path.stem, path=str(path), source=path.read_text(), workloads=(Workload(name="default"),))

    def lower(self, problem: Problem) -> LoweredGraph:
        return LoweredGraph(nodes=(), outputs=None)

    def evaluate(self, problem: Problem, candidate: Candidate, tier: Tier = "quick") -> Evaluation:
        self.judged.append(candidate.id)
        return Evaluation(
            candidate=candidate.id,
            problem=problem.id,
            status=Status.PASSED,
            tier=tier,
            checks=(Check(workload="default", draw="normal", passed=True),),
            timings=(timing("default", 1.0),),
        )

    def profile(self, problem: Problem, candidate: Candidate) -> Profile:
        if len(self.judged) > self.breaks_after:
            return Profile(candidate=candidate.id, reason="not profiled (no permission)")
        kernel = KernelProfile(name="k", duration_ms=1.0, share=1.0, metrics={counters.DRAM: 0.9})
        return Profile(candidate=candidate.id, kernels=(kernel,))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "new" / "counters.json"


def run(harness: ProfilingHarness, out: Path, *arguments: str) -> bool:
    given = ["--out", str(out), "--commit", "abc", *arguments]
    options = record_diagnosis.parse(given)
    options.arguments = given
    return record_diagnosis.record_all(harness, collect(options.only), options)  # type: ignore[arg-type]


def test_a_recording_says_where_it_is_from_and_reads_back(out: Path) -> None:
    assert run(ProfilingHarness(), out, "--only", "memory_wide") is True
    recording = load(out)
    assert (recording.gpu, recording.versions, recording.commit) == (GPU.name, GPU.versions, "abc")
    assert recording.command.startswith("python -m warpsmith.evals.record_diagnosis --out counters.json")
    recorded = recording.of("memory_wide_loads")
    assert recorded is not None
    assert recorded.diagnosed(recording.device).text.startswith("memory: k keeps DRAM 90% busy")


def test_what_is_recorded_is_not_recorded_again_unless_asked(out: Path) -> None:
    run(ProfilingHarness(), out, "--only", "memory_wide")
    second = ProfilingHarness()
    run(second, out, "--only", "memory_wide")
    assert second.judged == []
    run(second, out, "--only", "memory_wide", "--again")
    assert len(second.judged) == 1


def test_a_kernel_without_counters_is_tried_again(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ProfilingHarness(breaks_after=0), out, "--only", "memory_wide") is False
    assert "WRONG memory_wide_loads:" in capsys.readouterr().err
    assert run(ProfilingHarness(), out, "--only", "memory_wide") is True


def test_a_class_that_is_not_the_expected_one_is_said(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ProfilingHarness(), out, "--only", "spills") is False
    assert "WRONG spills: memory:" in capsys.readouterr().err


def test_a_call_that_ran_out_of_time_keeps_what_it_has(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ProfilingHarness(), out, "--only", "memory_wide") is True
    assert run(ProfilingHarness(), out, "--seconds", "0") is False
    assert "left spills: no time" in capsys.readouterr().err
    assert [recorded.name for recorded in load(out).kernels] == ["memory_wide_loads"]


def test_wrong_input_is_one_line_and_exit_code_two(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record_diagnosis.main(["--only", "no_such_kernel", "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
