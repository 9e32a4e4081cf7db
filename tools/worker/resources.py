"""Registers, spills and shared memory of compiled kernels, read from their machine code by cuobjdump."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_USAGE = re.compile(r"Function (\S+?):\s*\n?\s*(?:Fatbin.*\n)?\s*REG:(\d+)\s+STACK:(\d+)\s+SHARED:(\d+)", re.MULTILINE)


@dataclass
class KernelFacts:
    """Static facts of one kernel."""

    name: str
    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    num_warps: int = 4


@cache
def _tool(name: str) -> str | None:
    """A binary utility from Triton's wheel, else from the CUDA toolkit."""
    import shutil

    import triton

    packaged = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    return str(packaged) if packaged.exists() else shutil.which(name)


def of_cubin(cubin: bytes) -> list[KernelFacts]:
    """Facts of every kernel in a cubin; empty where no tool can read it."""
    tool = _tool("cuobjdump")
    if tool is None:
        return []
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        shown = subprocess.run(
            [tool, "--dump-resource-usage", file.name], capture_output=True, text=True, timeout=30, check=False
        )
    found = []
    for name, registers, stack, shared in _USAGE.findall(shown.stdout):
        found.append(KernelFacts(name, int(registers), int(stack), int(shared)))
    return found


def of_triton(kernel: Any) -> KernelFacts:
    """Facts of a compiled Triton kernel."""
    metadata = kernel.metadata
    facts = KernelFacts(name=str(metadata.name), shared_bytes=int(metadata.shared), num_warps=int(metadata.num_warps))
    for read in of_cubin(kernel.asm["cubin"]):
        facts.registers, facts.spill_bytes = read.registers, read.spill_bytes
    return facts


def as_record(facts: KernelFacts) -> dict[str, Any]:
    """As `KernelResources` has it."""
    return {
        "name": facts.name,
        "registers": facts.registers,
        "spill_bytes": facts.spill_bytes,
        "shared_bytes": facts.shared_bytes,
        "num_warps": facts.num_warps,
    }


def for_launch(facts: KernelFacts | None) -> dict[str, int]:
    """The facts that a launch record carries."""
    if facts is None:
        return {}
    return {"registers": facts.registers, "spill_bytes": facts.spill_bytes, "shared_bytes": facts.shared_bytes}
