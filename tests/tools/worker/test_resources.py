"""Static facts of kernels, read from cubins that NVRTC makes without a GPU."""

import pytest

from warpsmith.tools.worker import resources

nvrtc = pytest.importorskip("cupy").cuda.nvrtc

SOURCE = """
extern "C" __global__ void plain(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] * 2.0f; }
extern "C" __global__ void shared(const float* x, float* y) {
    __shared__ float tile[512];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[511 - threadIdx.x];
}
extern "C" __global__ void dynamic(const float* x, float* y) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[31 - threadIdx.x];
}
extern "C" __global__ void stacked(const int* at, float* y) {
    float many[200];
    for (int i = 0; i < 200; ++i) many[i] = y[i * 3];
    for (int i = 0; i < 200; ++i) many[at[i]] += many[at[i + 1]];
    for (int i = 0; i < 200; ++i) y[i] = many[i];
}
"""


def cubin(source: str, arch: str) -> bytes:
    program = nvrtc.createProgram(source, "kernels.cu", (), ())
    nvrtc.compileProgram(program, (f"-arch={arch}",))
    return bytes(nvrtc.getCUBIN(program))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_registers_stack_and_shared_memory_of_every_kernel(arch):
    found = {facts.name: facts for facts in resources.of_cubin(cubin(SOURCE, arch))}
    assert set(found) == {"plain", "shared", "dynamic", "stacked"}
    assert all(4 <= facts.registers <= 255 for facts in found.values())
    assert found["shared"].shared_bytes == 2048
    assert found["plain"].shared_bytes == found["dynamic"].shared_bytes == found["stacked"].shared_bytes == 0
    assert found["stacked"].spill_bytes >= 800
    assert found["plain"].spill_bytes == found["shared"].spill_bytes == 0


def test_a_register_limit_makes_a_kernel_spill():
    source = SOURCE.replace("void stacked", "void __launch_bounds__(1024, 2) stacked")
    found = {facts.name: facts for facts in resources.of_cubin(cubin(source, "sm_90"))}
    assert found["stacked"].registers <= 32


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not a cubin at all" * 50, b"\x7fELF" + bytes(4096)])
def test_what_is_no_cubin_has_no_kernels(content):
    assert resources.of_cubin(content) == []


def test_a_cubin_cut_short_anywhere_gives_facts_or_nothing_and_never_an_error():
    whole = cubin(SOURCE, "sm_90")
    for length in range(0, len(whole), 997):
        assert isinstance(resources.of_cubin(whole[:length]), list)


def test_facts_of_no_kernel_are_no_facts():
    assert resources.for_launch(None) == {}
    facts = resources.KernelFacts("k", registers=40, spill_bytes=8, shared_bytes=16, num_warps=2)
    assert resources.for_launch(facts) == {"registers": 40, "spill_bytes": 8, "shared_bytes": 16}
    assert resources.as_record(facts)["num_warps"] == 2
