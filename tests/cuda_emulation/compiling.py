"""Compiles what a candidate would compile, for sm_90 and without a GPU; registers and spills from the cubin."""

import functools
import re
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy

from warpsmith.sub_agents.kernel_source import KernelSource


class Address:
    """A tensor that has an address and a device and nothing else."""

    device = "cuda"

    def __init__(self, address: int = 1 << 20) -> None:
        self._address = address

    def data_ptr(self) -> int:
        return self._address


def modules(source: KernelSource, symbols: dict[str, int]) -> list[tuple[str, tuple[str, ...]]]:
    """Code and options of every module that the host function makes for aligned tensors at these sizes."""
    made: list[tuple[str, tuple[str, ...]]] = []

    def module(*, code: str, options: tuple[str, ...]) -> Any:
        made.append((code, options))
        kernel = lambda *args, **kwargs: None  # noqa: E731 - takes attributes, unlike a method
        kernel.kernel = SimpleNamespace(ptr=0)  # type: ignore[attr-defined]
        return SimpleNamespace(get_function=lambda name: kernel)

    driver = SimpleNamespace(funcSetAttribute=lambda *args: None)
    cuda = SimpleNamespace(ExternalStream=lambda pointer: None, driver=driver)
    scalars = {name: getattr(numpy, name) for name in ("int32", "int64", "float32", "float64")}
    dtypes = ("float16", "bfloat16", "float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")
    torch = SimpleNamespace(
        empty=lambda shape, dtype, device: Address(),
        cuda=SimpleNamespace(current_stream=lambda: SimpleNamespace(cuda_stream=0)),
        **dict.fromkeys(dtypes),
    )
    cupy = SimpleNamespace(RawModule=module, cuda=cuda, **scalars)
    names: dict[str, Any] = {"torch": torch, "cupy": cupy, "functools": functools}
    exec(compile(source.code, source.function, "exec"), names)
    names[source.function](*(Address() for _ in source.reads), *(symbols[name] for name in source.symbols))
    return made


@functools.cache
def cubin(code: str, options: tuple[str, ...]) -> bytes:
    """Compiles with NVRTC for sm_90. Raises with the compiler's log."""
    from cuda.core import Program, ProgramOptions

    defines = [(o[2:].split("=")[0], o.split("=")[1]) for o in options if o.startswith("-D")]
    made = Program(code, "c++", ProgramOptions(arch="sm_90", std="c++17", define_macro=defines or None)).compile(
        "cubin"
    )
    return bytes(made.code)


def resources(binary: bytes) -> dict[str, dict[str, int]]:
    """Registers, stack (spills and local arrays) and static shared memory in bytes, by kernel."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        listed = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)
    found = re.findall(r"Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", listed.stdout)
    return {name: {"registers": int(r), "stack": int(s), "shared": int(m)} for name, r, s, m in found}
