"""The harness on a GPU: times that can be trusted, and candidates that spoil nothing for the next one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from candidates.softmax import CLASS

from warpsmith.state.candidate import make_candidate
from warpsmith.state.evaluation import Evaluation, Status
from warpsmith.state.problem import Problem
from warpsmith.tools.local import HarnessSettings, LocalHarness

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

HEAD = "import torch\nfrom torch import nn\nimport triton\nimport triton.language as tl\n"
REFERENCE = """
import torch
class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(n))
    def forward(self, x):
        return torch.softmax(x * self.scale, -1)
def get_inputs(rows=4096, columns=8192):
    return [torch.randn(rows, columns)]
def get_init_inputs():
    return [8192]
ranges = {"rows": (1, 5000)}
"""
ROWS = """
@triton.jit
def rows(x, scale, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + column) * tl.load(scale + column)
    e = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * n + column, e / tl.sum(e, 0))
"""
LAUNCH = "rows[(x.shape[0],)](x, self.scale, out, 8192, BLOCK=8192, num_warps=16)"
RIGHT = ROWS + CLASS.format(forward=f"out = torch.empty_like(x); {LAUNCH}; return out")
TWICE = RIGHT.replace(LAUNCH, f"{LAUNCH}; {LAUNCH}")
ASIDE = "s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream()); torch.cuda.set_stream(s)"
ON_ANOTHER_STREAM = RIGHT.replace(LAUNCH, f"{ASIDE}; {LAUNCH}")
ILLEGAL = """
@triton.jit
def illegal(out):
    tl.store(out + (1 << 40), 1.0)
""" + CLASS.format(forward="out = torch.empty_like(x); illegal[(1,)](out); return out")
ENDLESS = """
@triton.jit
def endless(out):
    while tl.load(out, volatile=True) == 0.0:
        pass
""" + CLASS.format(forward="out = torch.zeros_like(x); endless[(1,)](out); return out")
HOG = CLASS.format(forward="return torch.empty(1 << 42, device=x.device)")


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHarness]:
    names = ("eager", "compile")
    harness = LocalHarness(
        HarnessSettings(dry_run=False, require_gpu=True, baseline_names=names, call_limit_s=10.0, racing=False)
    )
    yield harness
    harness.close()


@pytest.fixture(scope="module")
def problem(harness: LocalHarness, tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("softmax") / "softmax.py"
    path.write_text(REFERENCE)
    problem = harness.load(path)
    harness.vet(problem)
    harness.baseline(problem)
    return problem


def verdict(harness: LocalHarness, problem: Problem, source: str) -> Evaluation:
    return harness.evaluate(problem, make_candidate(HEAD + source))


def test_the_reference_against_itself_reads_one(harness: LocalHarness, problem: Problem) -> None:
    ratios = [harness.identity(problem)["ratio"] for _ in range(3)]
    assert all(abs(ratio - 1) <= 0.03 for ratio in ratios), ratios


def test_a_right_kernel_is_timed_stably_and_above_its_floor(harness: LocalHarness, problem: Problem) -> None:
    found = verdict(harness, problem, RIGHT)
    assert found.status is Status.PASSED, found.message
    assert found.primary is not None
    assert found.primary.stable
    assert found.primary.candidate.count >= 50
    assert found.primary.candidate.median_ms > found.primary.floor_ms
    assert found.error_class == "fp32"


def test_a_kernel_that_works_twice_takes_twice_as_long(harness: LocalHarness, problem: Problem) -> None:
    once = verdict(harness, problem, RIGHT)
    twice = verdict(harness, problem, TWICE)
    assert once.primary is not None
    assert twice.primary is not None
    ratio = twice.primary.candidate.median_ms / once.primary.candidate.median_ms
    assert 1.6 < ratio < 2.2


@pytest.mark.parametrize(
    ("source", "status"),
    [(ILLEGAL, Status.RUNTIME_ERROR), (ENDLESS, Status.TIMEOUT), (HOG, Status.RESOURCE)],
    ids=["illegal access", "endless kernel", "too much memory"],
)
def test_a_kernel_that_breaks_its_process_leaves_the_next_one_well(
    harness: LocalHarness, problem: Problem, source: str, status: Status
) -> None:
    found = verdict(harness, problem, source)
    assert found.status is status, found.message
    after = verdict(harness, problem, RIGHT + f"\nafter = {status.value!r}\n")
    assert after.status is Status.PASSED, after.message


def test_nothing_of_ours_stays_on_the_gpu_after_a_kill(harness: LocalHarness, problem: Problem) -> None:
    verdict(harness, problem, ENDLESS + "\nagain = True\n")
    listed = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
    )
    running = [int(line.split(",")[0]) for line in listed.stdout.splitlines() if line.strip()]
    ours = [pid for pid in running if Path(f"/proc/{pid}").exists()]
    assert len(ours) <= 2, "the judge, and at most one cell that waits for its candidate"


BEYOND = """
@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n, other=0.0))

class ModelNew(nn.Module):
    def forward(self, x):
        half = x + 0.0  # a temporary that is freed, and whose memory the output may get
        out = torch.empty_like(half)
        double[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
"""
DOUBLE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + x
def get_inputs(n=1 << 22):
    return [torch.randn(n)]
workloads = {"odd": {"n": 100003}}
ranges = {"n": (1, 1 << 22)}
"""


@pytest.fixture(scope="module")
def doubling(harness: LocalHarness, tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("double") / "double.py"
    path.write_text(DOUBLE)
    problem = harness.load(path)
    harness.baseline(problem)
    return problem


def test_a_store_past_the_end_is_unsafe_and_a_masked_one_is_not(harness: LocalHarness, doubling: Problem) -> None:
    assert verdict(harness, doubling, BEYOND).status is Status.UNSAFE
    masked = BEYOND.replace("other=0.0))", "other=0.0), mask=at < n)")
    assert verdict(harness, doubling, masked).status is Status.PASSED
    temporaries = (
        "class ModelNew(nn.Module):\n    def forward(self, x):\n        return (x.double() * 2).float()[:].clone()"
    )
    assert verdict(harness, doubling, temporaries).status is Status.PASSED


def test_a_kernel_that_assumes_a_layout_is_labelled_and_fails_where_any_layout_counts(
    harness: LocalHarness, doubling: Problem, tmp_path: Path
) -> None:
    masked = BEYOND.replace("other=0.0))", "other=0.0), mask=at < n)")
    refusing = masked.replace("        half", "        assert x.is_contiguous()\n        half")
    careful = masked.replace("        half", "        x = x.contiguous()\n        half")
    found = [harness.evaluate(doubling, make_candidate(HEAD + each), "full") for each in (masked, refusing, careful)]
    assert [each.status for each in found] == [Status.PASSED] * 3, [each.message for each in found]
    assert ["assumes_contiguous" in each.labels for each in found] == [True, True, False]
    path = tmp_path / "any_layout.py"
    path.write_text(DOUBLE + '\nlayouts = "any"\n')
    strict = harness.load(path)
    harness.baseline(strict)
    assert harness.evaluate(strict, make_candidate(HEAD + masked), "full").status is Status.INCORRECT_NUMERICAL
    assert harness.evaluate(strict, make_candidate(HEAD + careful), "full").status is Status.PASSED


def test_work_on_another_stream_counts(harness: LocalHarness, problem: Problem) -> None:
    once = verdict(harness, problem, RIGHT)
    found = verdict(harness, problem, ON_ANOTHER_STREAM)
    assert once.primary is not None
    if found.primary is not None and found.status is Status.PASSED:
        assert found.primary.candidate.median_ms > 0.8 * once.primary.candidate.median_ms


CROSSING = """
import json, os, socket, sys
import torch
from warpsmith.tools import wire
from warpsmith.tools.worker.buffers import DeviceBuffer
ours, theirs = wire.pair()
if os.fork() == 0:
    torch.cuda.init()
    message = wire.receive(theirs, 60.0)
    mapped = DeviceBuffer(1 << 20, message.fds[0])
    seen = int(mapped.bytes[:1000].long().sum())
    mapped.bytes[:1000] = 7
    torch.cuda.synchronize()
    wire.send(theirs, {"seen": seen})
    os._exit(0)
torch.cuda.init()
buffer = DeviceBuffer(1 << 20)
buffer.bytes[:1000] = 3
torch.cuda.synchronize()
wire.send(ours, {}, [buffer.export()])
seen = wire.receive(ours, 60.0).body["seen"]
print(json.dumps([seen, int(buffer.bytes[:1000].long().sum())]))
"""


def test_a_device_buffer_is_shared_by_two_processes() -> None:
    """In a fresh interpreter: no process that forks may have a CUDA context."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    run = subprocess.run(
        [sys.executable, "-c", CROSSING], capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [3000, 7000]
