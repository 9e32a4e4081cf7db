"""The device functions that a kernel's text uses, cut from the prelude files, so that candidates stay readable."""

import re
from functools import cache
from pathlib import Path

_FILES = ("cuda_device.cu.j2", "cuda_math.cu.j2")
_DEFINES = re.compile(
    r"__forceinline__ [\w:<>,*& ]+?[ &*](\w+)(?:<\w+>)?\(|struct (?:alignas\(.*?\) )?(\w+)(?:<\w+>)? \{"
)


def prelude(*texts: str) -> str:
    """The blocks of device code that `texts` need, in dependency order; empty if they need none."""
    wanted = set(re.findall(r"\w+", "\n".join(texts)))
    blocks = _blocks()
    kept: set[int] = set()
    for _ in blocks:
        new = [i for i, (names, _) in enumerate(blocks) if i not in kept and names & wanted]
        if not new:
            break
        kept.update(new)
        for i in new:
            wanted |= set(re.findall(r"\w+", _code_of(blocks[i][1])))
    return "\n\n".join(blocks[i][1] for i in sorted(kept))


@cache
def _blocks() -> list[tuple[frozenset[str], str]]:
    """Every block (text between blank lines) with the names that it defines."""
    text = "\n\n".join((Path(__file__).parent / name).read_text().strip() for name in _FILES)
    parts = [part.strip("\n") for part in re.split(r"\n\s*\n", text)]
    return [(_defined(part), part) for part in parts]


def _defined(block: str) -> frozenset[str]:
    return frozenset(name for pair in _DEFINES.findall(_code_of(block)) for name in pair if name)


def _code_of(block: str) -> str:
    return "\n".join(line.split("//")[0] for line in block.splitlines())
