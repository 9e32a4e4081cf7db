"""Whose kernel is it: told by its name as a profiler or a sanitizer prints it.

A name is the only thing that these tools have in common. A candidate can name its kernel as it likes, so a kind is
shown and counted, and the share of own kernels counts names that the candidate's own source or compile defines.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from typing import cast

from ..state.evidence import KernelKind
from ..state.syntax import parse

_ATTRIBUTES = r"(?:__(?:launch_bounds|cluster_dims)__\s*\([^)]*\)\s*)*"
_GLOBAL = re.compile(rf"__global__\s+{_ATTRIBUTES}void\s+{_ATTRIBUTES}(\w+)")
_LIBRARIES: tuple[tuple[str, str], ...] = (
    ("copy", r"^(?:Memcpy|Memset)\b"),
    ("inductor", r"^triton_(?:poi|red|per|tem|mm|for)_"),
    ("cudnn", r"cudnn|implicit_convolve|xmma_(?:fprop|dgrad|wgrad)|convolve_|winograd|nchwToNhwc|nhwcToNchw"),
    (
        "cublas",
        r"cublas|nvjet|xmma_gemm|gemv|splitKreduce|(?:volta|turing|ampere|maxwell|hopper|sm\d+)_\w*(?:gemm|s1688|s16816)",
    ),
    ("cutlass", r"cutlass"),
    ("cub", r"\b(?:cub|thrust)::|DeviceReduce|DeviceScan|DeviceRadixSort"),
    ("pytorch", r"\b(?:at|c10|torch|pytorch_flash)::|^(?:void )?(?:flash_|fmha_)"),
    ("pytorch", r"^(?:void )?(?:vectorized_|unrolled_)?elementwise_kernel"),
    ("pytorch", r"^(?:void )?(?:\(anonymous namespace\)|<unnamed>)::softmax_warp_(?:for|back)ward\b"),
)
"""In this order: PyTorch wraps cub, cuDNN and cuBLAS use CUTLASS. PyTorch's softmax over short rows lies in a namespace
without a name. So do many kernels written by hand: that alone makes none a library's, whose hazards are set aside.
"""
_IN_A_LIBRARY = re.compile(r"\b(?:at|c10|torch|pytorch_flash|cub|thrust|cutlass|cudnn|cublas\w*)::")


def own_kernel_names(source: str) -> set[str]:
    """Names of the kernels that a candidate's source defines: `@triton.jit` functions and `__global__` ones.

    Comments and text that is never compiled count too: what these do wrong is the candidate's, what they do well need
    not be (`credited_names`).
    """
    names = set(_GLOBAL.findall(source))
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list):
            names.add(node.name)
    return names


def compiled_names(kernels: Iterable[str], source_names: set[str]) -> set[str]:
    """Names that a candidate's own compile met: they may be put together at run time, and look like a library's. What
    Inductor wrote for it is not its own."""
    return {base_name(name) for name in kernels if kind_of(name, source_names) != "inductor"}


def credited_names(source: str, compiled: Iterable[str]) -> set[str]:
    """Names whose time counts as the candidate's own: what its compile met, and what its source defines, but for names
    like a library's: a comment could claim those."""
    names = own_kernel_names(source)
    return {name for name in names if library_of(name) == "other"} | compiled_names(compiled, names)


def base_name(kernel: str) -> str:
    """A kernel's name without return type, namespace, template arguments and parameters."""
    text = re.sub(r"(?:<unnamed>|\(anonymous namespace\))::", "", kernel).split("(")[0].split("<")[0].strip()
    return text.split()[-1].split("::")[-1] if text else ""


def library_of(kernel: str) -> KernelKind:
    """The library that a name looks like, `other` where it looks like none."""
    for kind, pattern in _LIBRARIES:
        if re.search(pattern, kernel):
            return cast(KernelKind, kind)
    return "other"


def kind_of(kernel: str, own: set[str]) -> KernelKind:
    """`own` for a name that the candidate defines, else the library that it looks like."""
    return "own" if base_name(kernel) in own else library_of(kernel)


def credited_kind(kernel: str, credited: set[str]) -> KernelKind:
    """As `kind_of`, but what lies in a library's namespace is the library's, whatever the candidate defines."""
    before_arguments = re.split(r"[<(]", kernel.replace("<unnamed>", "").replace("(anonymous namespace)", ""))[0]
    return library_of(kernel) if _IN_A_LIBRARY.search(before_arguments) else kind_of(kernel, credited)


def custom_share(kernels: Mapping[str, float], credited: set[str]) -> float | None:
    """Share of time in credited kernels, in [0, 1]; None where nothing was seen. Times in one unit, by kernel name."""
    total = sum(kernels.values())
    if total <= 0:
        return None
    return min(1.0, sum(ms for name, ms in kernels.items() if credited_kind(name, credited) == "own") / total)
