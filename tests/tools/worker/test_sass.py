"""Opcodes read from cubins say what nvdisasm says of the same code."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from warpsmith.tools.worker import resources, sass

nvrtc = pytest.importorskip("cupy").cuda.nvrtc

SOURCE = """
extern "C" __global__ void wide(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void narrow(const unsigned char* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void mixed(const float2* x, const short* h, float* y) {
    y[threadIdx.x] = x[threadIdx.x].x + x[threadIdx.x].y * h[threadIdx.x];
}
extern "C" __global__ void copied(const float4* x, float4* y) {
    __shared__ float4 tile[128];
    unsigned at = __cvta_generic_to_shared(tile + threadIdx.x);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(x + threadIdx.x));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    y[threadIdx.x] = tile[127 - threadIdx.x];
}
extern "C" __global__ void products(const unsigned* a, const unsigned* b, float* c) {
    float d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    c[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
extern "C" __global__ void multiplied(const float* x, float* y) {
    float a = x[threadIdx.x], b = a;
    for (int i = 0; i < 100; ++i) b = fmaf(b, a, 1.0f);
    y[threadIdx.x] = b;
}
extern "C" __global__ void stacked(const int* at, float* y) {
    float many[200];
    for (int i = 0; i < 200; ++i) many[i] = y[i * 3];
    for (int i = 0; i < 200; ++i) many[at[i]] += many[at[i + 1]];
    for (int i = 0; i < 200; ++i) y[i] = many[i];
}
"""
CAPABILITIES = [80, 90, 100]


def facts(capability: int) -> dict[str, sass.SassFacts]:
    program = nvrtc.createProgram(SOURCE, "kernels.cu", (), ())
    nvrtc.compileProgram(program, (f"-arch=sm_{capability}",))
    found = resources.of_cubin(bytes(nvrtc.getCUBIN(program)), capability)
    return {kernel.name: kernel.sass for kernel in found if kernel.sass is not None}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_widths_of_memory_accesses(capability: int) -> None:
    found = facts(capability)
    assert found["wide"].global_load_bits == found["wide"].global_store_bits == {128: 1}
    assert found["narrow"].global_load_bits == {8: 1}
    assert found["narrow"].global_store_bits == {32: 1}
    assert found["mixed"].global_load_bits == {16: 1, 64: 1}
    assert found["mixed"].widest_load_bits == 64
    assert found["copied"].async_copy_bits == {128: 1}
    assert found["copied"].widest_load_bits == 128
    assert found["copied"].global_load_bits == {}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_units_and_local_memory(capability: int) -> None:
    found = facts(capability)
    assert found["products"].tensor == {"HMMA": 1}
    assert found["multiplied"].fma >= 100
    assert found["multiplied"].tensor == {}
    assert found["stacked"].local_accesses > 200
    assert all(found[name].local_accesses == 0 for name in found if name != "stacked")


HOPPER = """
extern "C" __global__ void grouped(unsigned long long a, unsigned long long b, float* c) {
    float d[4] = {0, 0, 0, 0};
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile("{wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;");
    asm volatile("wgmma.wait_group.sync.aligned 0;");
    c[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
"""


def test_warpgroup_products_of_hopper_are_told_from_those_of_a_warp() -> None:
    program = nvrtc.createProgram(HOPPER, "kernels.cu", (), ())
    nvrtc.compileProgram(program, ("-arch=sm_90a",))
    (kernel,) = resources.of_cubin(bytes(nvrtc.getCUBIN(program)), 90)
    assert kernel.sass is not None
    assert kernel.sass.tensor == {"HGMMA": 1}


def test_code_of_no_whole_instruction_has_no_facts() -> None:
    assert sass.facts_of(b"\x81\x09" * 3, 90) == sass.SassFacts()


def disassembler() -> str | None:
    triton = pytest.importorskip("triton")
    shipped = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    return str(shipped) if shipped.exists() else shutil.which("nvdisasm")


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_names_and_widths_are_those_of_nvdisasm(capability: int, tmp_path: Path) -> None:
    """Compiled by nvcc, since the disassembler that Triton ships cannot read what a newer NVRTC writes."""
    program, nvcc = disassembler(), shutil.which("nvcc")
    if program is None or nvcc is None:
        pytest.skip("needs nvdisasm and nvcc")
    (tmp_path / "kernels.cu").write_text(SOURCE)
    arch = f"sm_{capability}"
    subprocess.run([nvcc, "-arch", arch, "-cubin", "-o", "k.cubin", "kernels.cu"], cwd=tmp_path, check=True)
    shown = subprocess.run([program, "-c", "k.cubin"], cwd=tmp_path, capture_output=True, text=True, check=False)
    if shown.returncode:
        pytest.skip(f"nvdisasm cannot read what nvcc wrote: {shown.stderr.strip()}")
    expected = [expected_of(line) for line in shown.stdout.splitlines() if re.match(r"\s+/\*[0-9a-f]{4,}\*/", line)]
    code = (tmp_path / "k.cubin").read_bytes()
    read = [pair for part in sections_in_order(shown.stdout, code) for pair in sass.names_of(part, capability)]
    assert len(read) == len(expected) > 1000
    assert read == expected


def expected_of(line: str) -> tuple[str, int]:
    """`LDG.E.128` is ("LDG", 128); what the reader does not name is ("", 0)."""
    words = re.sub(r"^\s+/\*[0-9a-f]+\*/\s+", "", line).split()
    name, *modifiers = (words[1] if words[0].startswith("@") else words[0]).split(".")
    if name not in {*sass.OPCODES.values(), *sass.BLACKWELL_OPCODES.values()}:
        return "", 0
    if name not in ("LDG", "STG", "LDGSTS"):
        return name, 0
    widths = [int(part.lstrip("US")) for part in modifiers if re.fullmatch(r"[US]?(8|16|64|128)", part)]
    return name, (widths or [32])[0]


def sections_in_order(listing: str, cubin: bytes) -> list[bytes]:
    """Code of the kernels in the listing's order."""
    names = re.findall(r"^\s*\.section\s+\.text\.(\w+),", listing, re.MULTILINE)
    return [resources.code_of(cubin, name) for name in names]
