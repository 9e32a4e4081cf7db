"""Runs rendered CUDA matrix products on the CPU, and compiles them for sm_90 without a GPU."""

import re
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cuda_emulation import emulation
from programs.matmul_cases import Case, answer, relative_error, tensors

from warpsmith.sub_agents.kernel_source import KernelSource, Template
from warpsmith.sub_agents.slots import Setting
from warpsmith.tools.worker.resources import of_cubin

EXTRA = Path(__file__).with_name("matmul_emulation.hpp")


def emulated_error(template: Template, given: Case, setting: Setting) -> float:
    """The largest relative error over the stores. Raises EmulationError where the kernel writes outside an output."""
    source = template.render(given.program, setting, given.values)
    inputs = tensors(given)
    function, torch = emulated(source)
    result = function(*(inputs[name] for name in source.reads), *(given.hints[name] for name in source.symbols))
    torch.check_guards()
    results = list(result) if isinstance(result, tuple) else [result]
    return max(relative_error(mine, want) for mine, want in zip(results, answer(given, inputs), strict=True))


def emulated(source: KernelSource) -> tuple[Any, Any]:
    """The host function with tensor-core instructions emulated too, and the torch that it runs on."""
    extra = EXTRA.read_text().replace("#pragma once", "")
    # Which operands a warpgroup product transposes, and its element type, stand in its text.
    wgmma = re.search(r"f32\.(f16|bf16|tf32)\.\w+ .*?p, 1, 1(?:, (\d), (\d))?;", source.code, re.DOTALL)
    if wgmma:
        flags = {"BFLOAT16": int(wgmma[1] == "bf16"), "TF32": int(wgmma[1] == "tf32")}
        flags |= {"A_TRANSPOSED": wgmma[2] or 0, "B_TRANSPOSED": wgmma[3] or 0}
        extra = "".join(f"#define EMULATED_{name} {flag}\n" for name, flag in flags.items()) + extra
    cupy = SimpleNamespace(**vars(emulation.fake_cupy()))
    cupy.RawModule = lambda *, code, options=(): emulation.Module(code, options, extra)
    torch = emulation.FakeTorch()
    namespace: dict[str, Any] = {}
    exec("import functools", namespace)  # noqa: S102 - as the emulation itself does
    namespace |= {"torch": torch, "cupy": cupy}
    exec(compile(source.code, "<candidate>", "exec"), namespace)  # noqa: S102
    return namespace[source.function], torch


def cuda_text(source: KernelSource) -> str:
    """The CUDA C++ in a candidate's source."""
    found = re.search(r'r"""\n(.*?)\n"""', source.code, re.DOTALL)
    assert found is not None
    return found[1]


def compiled(
    source: KernelSource, width: int, sizes: dict[str, int] | None = None, waits: bool = False
) -> dict[str, dict[str, int]]:
    """Resources by kernel name from NVRTC's cubin, every vector `width` elements wide. Raises cuda.core's error.

    Waits for warpgroups are counted where asked for. Macros that are no vector width are in `sizes`. Where a source has
    several modules, of the first of them.
    """
    from cuda.core import Program, ProgramOptions

    arch = "sm_90a" if "-arch=sm_90a" in source.code else "sm_90"
    macros = {name: width for name in re.findall(r'f"-D(\w+)=', source.code)} | (sizes or {})
    options = ProgramOptions(arch=arch, std="c++17", define_macro=[(k, str(v)) for k, v in macros.items()])
    code = Program(cuda_text(source), "c++", options).compile("cubin").code
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        # Half a second a kernel, and only waits are not read without it.
        shown = [*command[:1], "-sass", file.name]
        sass = subprocess.run(shown, capture_output=True, text=True, check=True).stdout if waits else ""
    facts = {kernel.name: kernel.sass for kernel in of_cubin(code, 90)}
    found = {}
    for name, registers, stack in re.findall(r"Function (\w+):\s*\n\s*REG:(\d+) STACK:(\d+)", usage):
        of_kernel = facts[name]
        assert of_kernel is not None
        found[name] = {
            "registers": int(registers),
            "stack_bytes": int(stack),
            "spills": of_kernel.local_accesses,
            "mma": of_kernel.tensor.get("HMMA", 0),
            "wgmma": of_kernel.tensor.get("HGMMA", 0),
        }
        if waits:
            text = sass.split(f"Function : {name}")[1].split("Function : ")[0]
            found[name]["waits"] = len(re.findall(r"\bWARPGROUP\.DEPBAR\b", text))
    return found
