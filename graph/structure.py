"""What kind of kernel a candidate is, apart from its sizes: searches keep kinds apart and ask for new ones."""

import re

from ..state.candidate import Candidate

FEATURES = (
    ("dot", r"\btl\.dot\b|\bwgmma\b|\bmma\.sync\b|\bwmma\b"),
    ("atomic", r"\batomic_\w+|\batomic[A-Z]\w+"),
    ("loop", r"\bfor\b.{0,80}\brange\(|\btl\.range\(|\bfor\s*\("),
    ("vector", r"\bfloat4\b|\buint4\b|\bint4\b"),
    ("shared", r"__shared__|\bextern __shared__\b"),
    ("shuffle", r"__shfl\w*"),
    ("block_pointer", r"\bmake_block_ptr\b|\bmake_tensor_descriptor\b"),
    ("scan", r"\bassociative_scan\b|\bcumsum\b"),
)
"""Marks of a free source, by name and pattern."""


def structure_of(candidate: Candidate) -> str:
    """Templates and the choices among words for a template's candidate; language, kernels and marks for a free one.

    Two candidates of one structure differ in sizes, counts and switches only.
    """
    if candidate.template:
        words = [
            f"{name}={value}"
            for name, value in sorted(candidate.slots.items())
            if isinstance(value, str) and value and not name.endswith("template")
        ]
        return " ".join([candidate.template, *words])
    source = candidate.source
    kernels = len(re.findall(r"@triton\.jit|__global__", source))
    marks = [name for name, pattern in FEATURES if re.search(pattern, source)]
    return " ".join([candidate.language, f"kernels={kernels}", *marks])
