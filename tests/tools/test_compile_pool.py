"""Compiling apart from running: what is compiled, what is said of what is not, what one candidate leaves another."""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from warpsmith.state.candidate import Candidate, make_candidate
from warpsmith.state.problem import Problem, Workload
from warpsmith.tools import compile_pool
from warpsmith.tools.compile_pool import Compiled, CompilePool, printable
from warpsmith.tools.compiler_output import decisive_line
from warpsmith.tools.device_sheets import target_sheet

HEAD = "import torch\nfrom torch import nn\n"
SPEC = {"shape": [64, 100], "dtype": "float32", "strides": [100, 1]}


@pytest.fixture
def pool(server: Any) -> Iterator[CompilePool]:
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-pool-"))
    folder.chmod(0o755)
    yield CompilePool(server, folder, target_sheet("sm_90", {}), workers=2)
    shutil.rmtree(folder, ignore_errors=True)


def problem(*inputs: Any) -> Problem:
    workload = Workload(name="default", inputs=inputs or (SPEC,))
    return Problem(name="p", path="p.py", source="", workloads=(workload,), init_arguments={"list": []})


def candidate(body: str) -> Candidate:
    return make_candidate(HEAD + dedent(body))


ADD = """
    import triton
    import triton.language as tl
    @triton.jit
    def add(x, out, n, amount: tl.constexpr, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) + amount, mask=at < n)
    class ModelNew(nn.Module):
        def forward(self, x):
            out = torch.empty_like(x)
            add[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), AMOUNT, BLOCK=256)
            return out
"""
CUDA = """
    import cupy, numpy
    SOURCE = r'''
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void __launch_bounds__(128) add(const float* x, float* out, long long n) {
        __shared__ float tile[256];
        tile[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
        if (i < n) out[i] = x[i] + tile[127 - threadIdx.x];
    }'''
    class ModelNew(nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = cupy.RawModule(code=SOURCE, options=("-std=c++17",)).get_function("add")
        def forward(self, x):
            out = torch.empty_like(x)
            stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
            self.kernel((50,), (128,), (x.data_ptr(), out.data_ptr(), numpy.int64(x.numel())), stream=stream)
            return out
"""


def test_a_triton_candidate_compiles_with_its_resources_and_launches(pool):
    found = pool.compile(problem(), candidate(ADD.replace("AMOUNT", "1.0")))
    assert found.report.ok, found.report.error
    assert found.report.warnings == ""
    (kernel,) = found.report.kernels
    assert (kernel.name, kernel.num_warps) == ("add", 4)
    assert 0 < kernel.registers <= 255
    assert kernel.spill_bytes == 0
    (launch,) = found.launches
    assert (launch.kernel, launch.blocks, launch.num_warps) == ("add", 25, 4)
    assert launch.tensor_bytes == 2 * 64 * 100 * 4
    assert found.library == ()


def test_what_is_left_to_pytorch_is_traced_with_its_bytes(pool):
    body = ADD.replace("AMOUNT", "1.0").replace("return out", "return (out @ out.T).view(-1).relu()")
    found = pool.compile(problem(), candidate(body))
    assert found.report.warnings == ""
    assert [(call.op, call.tensor_bytes) for call in found.library] == [
        ("aten.mm", 4 * (2 * 64 * 100 + 64 * 64)),
        ("aten.relu", 4 * 2 * 64 * 64),
    ]


def test_a_cuda_candidate_compiles_with_headers_resources_and_launches(pool):
    found = pool.compile(problem(), candidate(CUDA))
    assert found.report.ok, found.report.error
    (kernel,) = found.report.kernels
    assert kernel.name == "add"
    assert kernel.shared_bytes == 1024
    assert 0 < kernel.registers <= 255
    (launch,) = found.launches
    assert (launch.blocks, launch.num_warps, launch.tensor_bytes) == (50, 4, 2 * 64 * 100 * 4)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (ADD.replace("AMOUNT", "1.0").replace("tl.load(", "tl.lode("), "lode"),
        (ADD.replace("AMOUNT", "1.0").replace("BLOCK=256", "BLOCK=200"), "power of 2"),
        (CUDA.replace("float tile", "flat tile"), "flat"),
        (CUDA.replace("__syncthreads();", "__syncthreads()"), 'expected a ";"'),
        (CUDA.replace("cuda_bf16.h", "no_such_header.h"), "no_such_header.h"),
        (CUDA.replace('extern "C" ', ""), 'is extern "C" missing?'),
        (CUDA.replace('get_function("add")', 'get_function("addition")'), "no kernel 'addition'"),
    ],
)
def test_a_compilers_error_is_told_in_one_decisive_line(pool, body, says):
    report = pool.compile(problem(), candidate(body)).report
    assert not report.ok
    line = decisive_line(report.error)
    assert says in line
    assert "\n" not in line
    assert "/tmp/" not in line


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (ADD.replace("AMOUNT", "float(x.sum())"), "not compiled ahead"),
        (ADD.replace("AMOUNT", "1.0 if bool((x > 0).all()) else 2.0"), "not compiled ahead"),
        ("class ModelNew(nn.Module):\n    def forward(self, x): raise KeyError('mine')", "KeyError: 'mine'"),
        ("raise OSError('at import')", "at import"),
        ("import os; os._exit(0)", "process ended"),
        ("import ctypes; ctypes.string_at(8)", "process ended"),
    ],
)
def test_what_cannot_be_traced_is_no_compile_error(pool, body, reason):
    report = pool.compile(problem(), candidate(body)).report
    assert report.ok
    assert reason in report.warnings


def test_a_candidate_without_kernels_compiles_to_nothing(pool):
    found = pool.compile(problem(), candidate("class ModelNew(nn.Module):\n    def forward(self, x): return x * 2"))
    assert found.report.ok
    assert found.report.kernels == found.launches == ()


def test_a_candidate_is_compiled_once_a_problem(pool):
    one = candidate(ADD.replace("AMOUNT", "3.0"))
    assert not pool.compile(problem(), one).report.cached
    again = pool.compile(problem(), one).report
    assert again.cached
    assert again.seconds == 0
    assert not pool.compile(problem({**SPEC, "shape": [32, 100]}).model_copy(update={"source": "b"}), one).report.cached


def test_two_candidates_with_one_kernel_name_compiled_at_once_keep_their_own_code(pool):
    """Caches keyed by name once handed one candidate another's binary."""
    found: dict[str, Compiled] = {}
    bodies = {amount: candidate(ADD.replace("AMOUNT", amount)) for amount in ("11.0", "22.0")}

    def work(amount: str) -> None:
        found[amount] = pool.compile(problem(), bodies[amount])

    threads = [threading.Thread(target=work, args=(amount,)) for amount in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for amount, hexadecimal in (("11.0", "0f41300000"), ("22.0", "0f41B00000")):
        box = pool.fresh_box(found[amount], bodies[amount])
        texts = [path.read_text().lower() for path in box.rglob("*.ptx")]
        assert texts
        assert all(hexadecimal.lower() in text for text in texts)
        assert (box / "candidate.py").read_text() == bodies[amount].source


def test_a_box_holds_nothing_of_an_earlier_run(pool):
    one = candidate(ADD.replace("AMOUNT", "4.0"))
    compiled = pool.compile(problem(), one)
    box = pool.fresh_box(compiled, one)
    before = {path.relative_to(box) for path in box.rglob("*")}
    assert any(path.suffix == ".cubin" for path in before)
    (box / "planted").write_text("x")
    next(path for path in box.rglob("*.cubin")).write_bytes(b"spoilt")
    (box / "candidate.py").write_text("spoilt")
    again = pool.fresh_box(compiled, one)
    assert again == box
    assert {path.relative_to(again) for path in again.rglob("*")} == before
    assert next(path for path in again.rglob("*.cubin")).read_bytes() != b"spoilt"
    assert (again / "candidate.py").read_text() == one.source


@pytest.mark.skipif(os.geteuid() != 0, reason="an unprivileged harness can write no more than its candidates")
def test_the_source_is_never_written_through_a_link_that_the_compile_left(pool):
    """A harness run by root would write the candidate's text wherever the link points."""
    target = Path("/var/lib/warpsmith-test-target")
    one = candidate(f"import os\nos.unlink('candidate.py')\nos.symlink({str(target)!r}, 'candidate.py')\n")
    compiled = pool.compile(problem(), one)
    try:
        box = pool.fresh_box(compiled, one)
        assert not target.exists()
        assert not (box / "candidate.py").is_symlink()
        assert (box / "candidate.py").read_text() == one.source
    finally:
        target.unlink(missing_ok=True)


@pytest.mark.parametrize("trap", ["os.mkfifo('pipe')", "os.mkdir('shut'); os.chmod('shut', 0)", "os.chmod('.', 0)"])
def test_traps_in_the_scratch_folder_stop_nobody(pool, trap):
    one = candidate(f"import os\n{trap}\nclass ModelNew(nn.Module):\n    def forward(self, x): return x\n")
    compiled = pool.compile(problem(), one)
    assert (pool.fresh_box(compiled, one) / "candidate.py").read_text() == one.source


def test_compiling_that_does_not_end_is_ended(pool, monkeypatch):
    monkeypatch.setattr(pool, "_limit_s", 1.0)
    report = pool.compile(problem(), candidate("while True: pass")).report
    assert not report.ok
    assert "did not end within 1 s" in report.error


def test_a_worker_that_does_not_start_in_time_is_no_compile_error(pool, monkeypatch):
    monkeypatch.setattr(compile_pool, "_START_S", 1e-6)
    report = pool.compile(problem(), candidate("busy = 1")).report
    assert report.ok
    assert "did not start in time" in report.warnings


def test_what_was_not_compiled_ahead_is_compiled_by_the_next_run(pool, monkeypatch):
    one = candidate(ADD.replace("AMOUNT", "8.0"))
    with monkeypatch.context() as patch:
        patch.setattr(compile_pool, "_START_S", 1e-6)
        assert pool.compile(problem(), one).report.kernels == ()
    next_run = CompilePool(pool._server, pool._work_dir, pool._device, workers=1)
    assert len(next_run.compile(problem(), one).report.kernels) == 1


def test_two_pools_of_one_folder_compile_a_candidate_at_once_and_keep_each_others_caches(pool):
    """Two runs with one output folder: one used to remove what the other was compiling in, or reading."""
    one = candidate(ADD.replace("AMOUNT", "9.0"))
    pools = [pool, CompilePool(pool._server, pool._work_dir, pool._device, workers=2)]
    for each in pools:
        each.shown_at = pool._work_dir / "boxes" / "shown"
    found: list[Compiled] = []
    threads = [threading.Thread(target=lambda p=each: found.append(p.compile(problem(), one))) for each in pools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [compiled.report.warnings for compiled in found] == ["", ""]
    for compiled in found:
        box = pool.fresh_box(compiled, one, pool._work_dir / compiled.caches)
        assert list(box.rglob("*.cubin"))
    assert list((pool._work_dir / "boxes").iterdir()) == []


def test_source_that_is_no_python_costs_no_process(pool):
    for source in ("def (", "x = \0", "(" * 5000 + ")" * 5000, "x = " + "-" * 200_000 + "1"):
        report = pool.compile(problem(), Candidate(id="x", language="torch", source=source)).report
        assert not report.ok
        assert report.error.startswith("candidate.py: ")


def test_every_compiled_kernel_tells_its_occupancy_and_how_wide_it_reads(pool):
    (triton,) = pool.compile(problem(), candidate(ADD.replace("AMOUNT", "1.0"))).report.kernels
    assert (triton.num_warps, triton.blocks, triton.limiter) == (4, 25, "warps")
    assert triton.theoretical_occupancy == 1.0
    assert triton.sass.widest_load_bits == 64  # 256 elements by 128 threads
    assert (triton.sass.tensor, triton.sass.local_accesses) == ({}, 0)
    (cuda,) = pool.compile(problem(), candidate(CUDA)).report.kernels
    assert (cuda.num_warps, cuda.blocks, cuda.shared_bytes) == (4, 50, 1024)
    assert cuda.sass.widest_load_bits == 32
    assert cuda.theoretical_occupancy == 1.0


def test_shared_memory_that_a_launch_asks_for_counts(pool):
    asking = CUDA.replace("stream=stream)", "stream=stream, shared_mem=100 << 10)")
    compiled = pool.compile(problem(), candidate(asking))
    (kernel,) = compiled.report.kernels
    assert kernel.shared_bytes == 1024 + (100 << 10) == compiled.launches[0].shared_bytes
    assert (kernel.theoretical_occupancy, kernel.limiter) == (0.125, "shared memory")


def test_inputs_of_every_kind_reach_the_forward_as_they_will_be(pool):
    half = {"shape": [3, 4], "dtype": "bfloat16", "strides": [1, 3]}
    empty = {"shape": [0, 4], "dtype": "float32", "strides": [4, 1]}
    literal = {"tuple": [{"literal": 2, "type": "int"}, {"literal": None, "type": "NoneType"}]}
    body = """
        class ModelNew(nn.Module):
            def forward(self, x, index, empty, flag, scale, pair, none):
                assert x.dtype == torch.bfloat16 and x.stride() == (1, 3) and x.is_cuda and not x.is_contiguous()
                assert index.dtype == torch.int64 and empty.shape == (0, 4)
                assert (flag, scale, pair, none) == (True, 0.5, (2, None), None)
                return torch.empty(3, device=x.device) + torch.zeros(3, device="cuda")
    """
    index = {"shape": [7], "dtype": "int64", "strides": [1]}
    report = pool.compile(problem(half, index, empty, True, 0.5, literal, None), candidate(body)).report
    assert (report.ok, report.warnings) == (True, "")


def test_half_characters_in_a_workers_answer_can_be_written() -> None:
    answer = printable({"error": "\ud800 said", "kernels": [{"name": "\udfff"}], "ok": False, "n": 3})
    assert answer == {"error": "? said", "kernels": [{"name": "?"}], "ok": False, "n": 3}


SECOND = Workload(name="second", inputs=({"shape": [7, 33], "dtype": "float32", "strides": [33, 1]},))
ONLY_WHERE_SMALL = ADD.replace("AMOUNT", "1.0").replace("            out =", "            GUARD\n            out =")
FAILS_TO_COMPILE = "if x.numel() == 231: add[(1,)](x, x, x.numel(), 1.0, BLOCK=200)"
RAISES = "if x.numel() == 231: raise ValueError('231')"


def test_a_compilers_error_at_another_workload_is_told_too(pool):
    two = problem().model_copy(update={"workloads": (*problem().workloads, SECOND)})
    report = pool.compile(two, candidate(ONLY_WHERE_SMALL.replace("GUARD", FAILS_TO_COMPILE))).report
    assert not report.ok
    assert "power of 2" in report.error
    assert [kernel.name for kernel in report.kernels] == ["add"]


@pytest.mark.parametrize("guard", [FAILS_TO_COMPILE, RAISES, "if x.numel() == 231: __import__('os').abort()"])
def test_what_only_fails_on_a_hidden_workload_is_not_told(pool, guard):
    found = pool.compile(problem(), candidate(ONLY_WHERE_SMALL.replace("GUARD", guard)), [SECOND])
    assert found.report.ok
    assert found.report.warnings == ""
    assert len(found.launches) == 1


def test_a_hidden_workload_is_compiled_for(pool):
    def caches(hidden: list[Workload]) -> int:
        # A row count that 16 divides and one that it does not: two kernels where both are compiled.
        made = candidate(ADD.replace("AMOUNT", "1.0") + f"\n    HIDDEN = {len(hidden)}\n")
        found = pool.compile(problem(), made, hidden)
        return sum(1 for _ in pool.fresh_box(found, made).rglob("*.cubin"))

    assert caches([SECOND]) == caches([]) + 1
