"""Facts of a kernel's machine code, read from the opcodes in a cubin.

From Volta on every instruction has 16 bytes with the operation in the lowest nine bits and, for memory accesses, the
width in bits 73 to 75. NVIDIA documents the names (CUDA Binary Utilities: instruction set reference) and not the
encoding; it is read here all the same, since nvdisasm takes 0.35 s a kernel, must be as new as the compiler and need
not be installed, while this takes a millisecond. A test holds every name against nvdisasm's.
"""

import struct

from ...state.sass import SassFacts

GLOBAL_LOAD, GLOBAL_STORE, ASYNC_COPY = "LDG", "STG", "LDGSTS"
OPCODES = {
    0x181: GLOBAL_LOAD,
    0x186: GLOBAL_STORE,
    0x1AE: ASYNC_COPY,
    0x183: "LDL",
    0x187: "STL",
    0x1B4: "UTMALDG",
    0x1BA: "UBLKCP",
    0x1F0: "HGMMA",
    0x1F1: "IGMMA",
    0x1F3: "QGMMA",
    0x03C: "HMMA",
    0x037: "IMMA",
    0x03F: "DMMA",
    0x023: "FFMA",
}
BLACKWELL_OPCODES = {0x1EA: "UTCHMMA", 0x049: "FFMA2"}
TENSOR = frozenset(("HGMMA", "IGMMA", "QGMMA", "HMMA", "IMMA", "DMMA", "UTCHMMA"))
_WIDTH_BITS = {0: 8, 1: 8, 2: 16, 3: 16, 4: 32, 5: 64, 6: 128}
"""Odd codes are sign-extended."""
_BLACKWELL_ASYNC_BITS = {0: 32, 2: 64, 4: 128}
_BLACKWELL = 100
_MOST_INSTRUCTIONS = 500_000
"""Longer code is not looked at to its end: the facts are wanted, not its length."""
_INSTRUCTION = struct.Struct("<QQ")


def names_of(code: bytes, capability: int) -> list[tuple[str, int]]:
    """Name (empty where none of interest) and width in bits (0 where it has none) of each instruction, in order.

    `capability` is 90 for sm_90.
    """
    known = OPCODES | BLACKWELL_OPCODES if capability >= _BLACKWELL else OPCODES
    whole = min(len(code) // _INSTRUCTION.size, _MOST_INSTRUCTIONS) * _INSTRUCTION.size
    found = []
    for low, high in _INSTRUCTION.iter_unpack(code[:whole]):
        name = known.get(low & 0x1FF, "")
        widths = _BLACKWELL_ASYNC_BITS if name == ASYNC_COPY and capability >= _BLACKWELL else _WIDTH_BITS
        memory = name in (GLOBAL_LOAD, GLOBAL_STORE, ASYNC_COPY)
        found.append((name, widths.get(high >> 9 & 7, 0) if memory else 0))
    return found


def facts_of(code: bytes, capability: int) -> SassFacts:
    """Facts of one kernel's code section."""
    counts: dict[tuple[str, int], int] = {}
    instructions = names_of(code, capability)
    for instruction in instructions:
        counts[instruction] = counts.get(instruction, 0) + 1

    def by_bits(wanted: str) -> dict[int, int]:
        return {bits: n for (name, bits), n in sorted(counts.items()) if name == wanted and bits}

    def total(*wanted: str) -> int:
        return sum(n for (name, _), n in counts.items() if name in wanted)

    return SassFacts(
        instructions=len(instructions),
        global_load_bits=by_bits(GLOBAL_LOAD),
        global_store_bits=by_bits(GLOBAL_STORE),
        async_copy_bits=by_bits(ASYNC_COPY),
        bulk_copies=total("UTMALDG", "UBLKCP"),
        tensor={name: n for (name, _), n in sorted(counts.items()) if name in TENSOR},
        fma=total("FFMA", "FFMA2"),
        local_accesses=total("LDL", "STL"),
    )
