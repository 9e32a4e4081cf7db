"""Registers, stack and shared memory of compiled kernels, read from the ELF file that a cubin is.

Read here rather than by cuobjdump, whose version must match the compiler's. Layout: ELF64; attributes in section
`.nv.info` as (format, attribute, size, payload) with payload (symbol index, value); static shared memory is the size of
`.nv.shared.<kernel>`, less what the system keeps. Attribute numbers as in the `EIATTR_*` names that nvdisasm prints.
"""

import struct
from dataclasses import dataclass
from typing import Any

from ...state.sass import SassFacts
from . import sass

_EIATTR_FRAME_SIZE, _EIATTR_REGCOUNT = 0x11, 0x2F
_SIZED_VALUE = 4
_RESERVED_SHARED_BYTES = 1024
"""From sm_90 on the system keeps the first KiB of a block's static shared memory, and the section counts it."""
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass
class KernelFacts:
    """Static facts of one kernel."""

    name: str
    registers: int = 0
    spill_bytes: int = 0
    """Stack frame a thread: spilled registers and arrays that did not fit in registers."""
    shared_bytes: int = 0
    num_warps: int | None = None
    """Where the code fixes it: Triton's does, CUDA's is a launch's choice."""
    sass: SassFacts | None = None


def of_cubin(cubin: bytes, capability: int | None = None) -> list[KernelFacts]:
    """Facts of every kernel in a cubin; empty where it is no ELF file of the known layout.

    `capability` (90 for sm_90) names the instruction set; without it nothing is said of instructions.
    """
    try:
        return _read(cubin, capability)
    except (struct.error, ValueError, LookupError):
        return []


def code_of(cubin: bytes, kernel: str) -> bytes:
    """Machine code of one kernel. Raises struct.error, ValueError or LookupError for a file that is no such cubin."""
    section = _sections(cubin)[f".text.{kernel}"]
    return cubin[section[4] : section[4] + section[5]]


def _sections(cubin: bytes) -> dict[str, Any]:
    """Section headers by name."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [_SECTION.unpack_from(cubin, table + i * size) for i in range(count)]
    return {_text(cubin, headers[names_index][4] + h[0]): h for h in headers}


def _read(cubin: bytes, capability: int | None) -> list[KernelFacts]:
    if cubin[:4] != b"\x7fELF":
        return []
    sections = _sections(cubin)
    names = [name.removeprefix(".text.") for name in sections if name.startswith(".text.")]
    kernels = {name: KernelFacts(name) for name in names}
    symbols = _symbols(cubin, sections)
    for attribute, symbol, number in _attributes(cubin, sections[".nv.info"]):
        kernel = kernels.get(symbols.get(symbol, ""))
        if kernel is not None and attribute == _EIATTR_REGCOUNT:
            kernel.registers = number
        elif kernel is not None and attribute == _EIATTR_FRAME_SIZE:
            kernel.spill_bytes = number
    for name, kernel in kernels.items():
        shared = sections.get(f".nv.shared.{name}")
        reserved = _RESERVED_SHARED_BYTES if ".nv.shared.reserved.0" in sections else 0
        kernel.shared_bytes = max(0, int(shared[5]) - reserved) if shared else 0
        if capability is not None:
            kernel.sass = sass.facts_of(code_of(cubin, name), capability)
    return list(kernels.values())


def _text(cubin: bytes, start: int) -> str:
    return cubin[start : cubin.index(b"\0", start)].decode()


def _symbols(cubin: bytes, sections: dict[str, Any]) -> dict[int, str]:
    table, strings = sections[".symtab"], sections[".strtab"]
    entries = range(table[5] // _SYMBOL.size)
    return {i: _text(cubin, strings[4] + _SYMBOL.unpack_from(cubin, table[4] + i * _SYMBOL.size)[0]) for i in entries}


def _attributes(cubin: bytes, section: Any) -> list[tuple[int, int, int]]:
    found, position, end = [], section[4], section[4] + section[5]
    while position < end:
        form, attribute, size = struct.unpack_from("<BBH", cubin, position)
        position += 4
        if form == _SIZED_VALUE:
            if size == 8:
                found.append((attribute, *struct.unpack_from("<II", cubin, position)))
            position += size
    return found


def of_triton(kernel: Any) -> KernelFacts:
    """Facts of a compiled Triton kernel."""
    metadata = kernel.metadata
    facts = KernelFacts(name=str(metadata.name), shared_bytes=int(metadata.shared), num_warps=int(metadata.num_warps))
    for read in of_cubin(kernel.asm["cubin"], int(metadata.target.arch)):
        facts.registers, facts.spill_bytes, facts.sass = read.registers, read.spill_bytes, read.sass
    return facts


def as_record(facts: KernelFacts) -> dict[str, Any]:
    """As `KernelResources` has it."""
    return {
        "name": facts.name,
        "registers": facts.registers,
        "spill_bytes": facts.spill_bytes,
        "shared_bytes": facts.shared_bytes,
        "num_warps": facts.num_warps,
        "sass": facts.sass.model_dump(mode="json") if facts.sass else None,
    }


def for_launch(facts: KernelFacts | None) -> dict[str, int]:
    """The facts that a launch record carries."""
    if facts is None:
        return {}
    return {"registers": facts.registers, "spill_bytes": facts.spill_bytes, "shared_bytes": facts.shared_bytes}
