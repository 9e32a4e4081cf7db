"""The real profiler and the real sanitizers on real kernels, through the harness."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.state.candidate import Candidate, make_candidate
from warpsmith.state.evaluation import Status
from warpsmith.state.problem import Problem
from warpsmith.tools import evidence
from warpsmith.tools.local import HarnessSettings, LocalHarness
from warpsmith.tools.profiling import ncu
from warpsmith.tools.sanitizing import compute_sanitizer, sanitizer

pytestmark = pytest.mark.gpu
PROBLEM = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs(count=1 << 24):
    return [torch.randn(count)]
def get_init_inputs():
    return []
ranges = {"count": (1, 1 << 24)}
"""
CANDIDATE = '''
import functools, cupy, numpy, torch
from torch import nn
@functools.cache
def kernel():
    return cupy.RawModule(code=r"""
extern "C" __global__ void doubles(const float* x, float* scratch, float* y, long long n) {{
    {shared}
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n{slip}) y[i] = {value};
}}""", options=("-std=c++17",)).get_function("doubles")
class ModelNew(nn.Module):
    def forward(self, x):
        y, scratch = torch.empty_like(x), torch.empty_like(x)
        n = x.numel()
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        arguments = (x.data_ptr(), scratch.data_ptr(), y.data_ptr(), numpy.int64(n))
        kernel()(((n + 255) // 256,), (256,), arguments, stream=stream)
        return y
'''


def candidate(shared: str = "", slip: str = "", value: str = "fmaxf(x[i], 0.f) * 2.f") -> Candidate:
    return make_candidate(CANDIDATE.format(shared=shared, slip=slip, value=value))


@pytest.fixture(scope="module")
def harness() -> Iterator[LocalHarness]:
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-"))
    folder.chmod(0o755)
    harness = LocalHarness(HarnessSettings(work_dir=folder, require_gpu=True, baseline_names=("eager",)))
    yield harness
    harness.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def problem(harness: LocalHarness, tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("problem") / "relu.py"
    path.write_text(PROBLEM)
    loaded = harness.load(path)
    harness.baseline(loaded)
    return loaded


@pytest.fixture
def profiler() -> None:
    if ncu.find() is None:
        pytest.skip("no ncu")


@pytest.fixture
def tools() -> None:
    if compute_sanitizer.find() is None:
        pytest.skip("no compute-sanitizer")


def found_by(harness: LocalHarness, problem: Problem, made: Candidate, tool: compute_sanitizer.SanitizerTool) -> str:
    compiled = harness.compiler.compile(problem, made)
    outside = harness.witnesses._outside
    with outside.job(harness.judges.of(problem), problem, made, compiled, "") as job:
        result = sanitizer.check(outside, job, tool, evidence.own_names(made, compiled))
    return result.hazard.kind if result.hazard else f"{result.outcome} {result.reason}".strip()


def test_a_kernel_is_profiled_alone(harness: LocalHarness, problem: Problem, profiler: None) -> None:
    found = harness.profile(problem, candidate())
    assert found.reason == ""
    assert [(kernel.name, kernel.kind, kernel.share) for kernel in found.kernels] == [("doubles", "own", 1.0)]
    metrics = found.kernels[0].metrics
    assert metrics["dram__throughput.avg.pct_of_peak_sustained_elapsed"] > 0.3
    assert metrics["launch__registers_per_thread"] > 0
    assert len(metrics) > 30


def test_a_sound_kernel_holds_at_the_record_tier(
    harness: LocalHarness, problem: Problem, profiler: None, tools: None
) -> None:
    found = harness.evaluate(problem, candidate(), "record")
    assert found.status is Status.PASSED, found.message
    seen = found.evidence
    assert seen is not None
    assert [result.outcome for result in seen.sanitizers] == ["clean"] * 4, seen.sanitizers
    assert seen.profiler is not None
    assert seen.profiler.agrees
    assert seen.reproduction is not None
    assert seen.reproduction.bitwise is True
    assert found.custom_share == 1.0
    missing = {"no_profiler_evidence", "not_sanitized", "not_bitwise_reproducible", "torch_only"}
    assert missing.isdisjoint(found.labels), found.labels


def test_a_store_past_the_end_is_seen(harness: LocalHarness, problem: Problem, tools: None) -> None:
    assert "Invalid __global__" in found_by(harness, problem, candidate(slip=" + 8"), "memcheck")


def test_a_missing_barrier_is_seen(harness: LocalHarness, problem: Problem, tools: None) -> None:
    racy = candidate(
        shared="__shared__ float tile[256]; tile[threadIdx.x] = x[0];", value="tile[(threadIdx.x + 64) % 256]"
    )
    assert "ace" in found_by(harness, problem, racy, "racecheck")


def test_scratch_memory_that_nobody_wrote_is_seen(harness: LocalHarness, problem: Problem, tools: None) -> None:
    assert "ninitialized" in found_by(harness, problem, candidate(value="x[i] + 0.f * scratch[i]"), "initcheck")


def test_atomics_are_no_race(harness: LocalHarness, problem: Problem, tools: None) -> None:
    counts = "__shared__ int total; if (threadIdx.x == 0) total = 0; __syncthreads(); atomicAdd(&total, 1);"
    assert found_by(harness, problem, candidate(shared=counts), "racecheck") == "clean"
