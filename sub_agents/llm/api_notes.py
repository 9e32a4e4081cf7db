"""Facts on the Triton and CUDA that are installed, for prompts and for the tool `read_docs`.

Names, signatures and docstrings of `triton.language` are read off the installed package's own source, which is parsed
and never imported. Facts on CUDA C++ follow from the architecture and from how candidates compile (NVRTC).
"""

import ast
import functools
import importlib.util
from pathlib import Path

from ...state.device import DeviceSheet
from ...state.syntax import parse

TRITON_FILES = ("core.py", "standard.py", "math.py", "random.py")
USED_OFTEN = (
    "load store dot sum max min argmax reduce associative_scan cumsum sort where arange zeros full "
    "program_id num_programs cdiv exp exp2 log rsqrt sigmoid softmax atomic_add atomic_max make_block_ptr "
    "make_tensor_descriptor static_range range multiple_of max_contiguous assume gather trans reshape "
    "expand_dims inline_asm_elementwise"
)
"""What a note on Triton lists, where the installed version has it."""
MOST_LINES = 40

ARCHITECTURES: dict[str, str] = {
    "sm_80": "mma.sync for fp16, bf16, tf32; cp.async; 164 KiB shared memory an SM",
    "sm_86": "mma.sync for fp16, bf16, tf32; cp.async; 100 KiB shared memory an SM",
    "sm_89": "mma.sync for fp16, bf16, tf32, fp8; cp.async; 100 KiB shared memory an SM",
    "sm_90": "wgmma (warpgroup matrix products), TMA copies, thread-block clusters with distributed shared memory, "
    "cp.async, mma.sync for fp16, bf16, tf32, fp8; 227 KiB shared memory a block",
    "sm_100": "tcgen05 matrix products with tensor memory, TMA, thread-block clusters; 227 KiB shared memory a block",
}
"""Instruction support by architecture, from NVIDIA's CUDA C++ programming guide and PTX ISA."""

TRITON_FACTS = (
    "A kernel is a function under @triton.jit, in a file (its source is read); it sees only its arguments, "
    "tl.constexpr globals and other jitted functions.",
    "Block shapes are powers of two and known at compile time; mask what lies outside with `mask=` and give `other=`.",
    "Pass tensors, not pointers; strides and sizes are integers. Sizes that are 1 are specialised as constants.",
    "Launch as kernel[grid](arguments, BLOCK=..., num_warps=..., num_stages=...); grid is a tuple of at most three.",
    "tl.dot needs blocks of at least 16 on each side; float32 operands run as TF32 unless "
    "input_precision='ieee' or 'tf32x3' is given, and TF32 is not accurate enough for a float32 reference.",
    "Accumulate in float32; convert with .to(); reductions of bfloat16 need an explicit .to(tl.float32) first.",
    "There is no barrier between programs, no break or continue, no tensor indexing with [i]; use masks and tl.where.",
    "Offsets that may exceed 2**31 - 1 need program ids converted with .to(tl.int64).",
    "Do not use triton.autotune: choose the configuration yourself.",
)

CUDA_FACTS = (
    "CUDA C++ is compiled by NVRTC through cupy.RawModule(code=..., options=('-std=c++17',)); declare kernels "
    'extern "C" and fetch them with module.get_function(name).',
    "NVRTC has no host headers: no <iostream>, no <torch/extension.h>. <cuda_fp16.h> and <cuda_bf16.h> may be absent: "
    "bfloat16 converts exactly by shifting its 16 bits left into a float, and back by asm cvt.rn.bf16.f32.",
    "Launch as kernel((blocks,), (threads,), arguments, shared_mem=bytes, stream=stream) with "
    "stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream).",
    "Arguments: tensor.data_ptr() for pointers; scalars typed, as cupy.int32(n) or cupy.float32(x); plain Python "
    "integers are passed as 64 bits.",
    "More than 48 KiB of dynamic shared memory needs kernel.max_dynamic_shared_size_bytes = bytes first.",
    "Compile once: keep the kernel in a functools.cache'd function, not at import and not in every forward.",
    "__shfl_xor_sync and the other warp functions need a mask, 0xffffffff for a whole warp that is converged.",
    "Vector accesses (float4) need 16-byte aligned addresses: check data_ptr() and sizes, or fall back to scalars.",
)


TRITON_ERRORS = (
    "tl.cumsum(x, axis=0, initial=c): no such argument; add the carry to the result",
    "tl.dot(a, b, trans_b=True): no such argument; transpose with tl.trans(b)",
    "tl.roll, tl.shift: do not exist; load with other offsets, or scan",
    "tl.arange(0, n): both ends must be compile-time constants and their distance a power of two",
    "x[i] on a block: not indexable; use a mask and tl.sum(tl.where(...)), or load again",
)
CUDA_ERRORS = (
    'uint32_t, int64_t: undefined without headers ("attribute __global__ does not apply here"); use unsigned int, '
    "long long",
    "INFINITY, M_PI, FLT_MAX: undefined; write the number, or __int_as_float(0x7f800000)",
    "std::min, std::max: no such members; use min, max, fminf, fmaxf",
    "#include <cstdint>, <torch/extension.h>, <cooperative_groups.h>: could not open source file",
)
"""Errors that kernels met before; each was tried."""


def known_errors(language: str) -> tuple[str, ...]:
    """What often fails to compile, with what to write in its place."""
    return TRITON_ERRORS if language == "triton" else CUDA_ERRORS


def facts(language: str, device: DeviceSheet) -> str:
    """What to know about a language here, with the versions installed."""
    versions = {name: device.versions[name] for name in ("triton", "cupy", "torch", "cuda") if name in device.versions}
    installed = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [f"Installed: {installed or 'unknown'}; target {device.arch}: {instructions(device.arch)}."]
    lines += [f"- {fact}" for fact in (TRITON_FACTS if language == "triton" else CUDA_FACTS)]
    if language == "triton":
        names = [name for name in USED_OFTEN.split() if name in triton_functions()]
        lines.append(f"- In triton.language here: {', '.join(names)}.")
    return "\n".join(lines)


def instructions(arch: str) -> str:
    """What an architecture can do beyond plain arithmetic."""
    return ARCHITECTURES.get(arch.removesuffix("a"), "no notes on this architecture")


def read_docs(topic: str, device: DeviceSheet) -> str:
    """Notes on a topic: `triton`, `cuda`, or the name of something in triton.language (`tl.dot`, `dot`)."""
    name = topic.strip().removeprefix("triton.language.").removeprefix("tl.").lower()
    if name in ("triton", "cuda"):
        return facts(name, device)
    found = triton_functions()
    if name in found:
        return found[name]
    near = sorted(other for other in found if name and (name in other or other in name))[:20]
    hint = f"; near it: {', '.join(near)}" if near else ""
    return f"no notes on {topic!r}: ask for triton, cuda, or a name in triton.language{hint}"


@functools.cache
def triton_functions() -> dict[str, str]:
    """Public functions of the installed triton.language: signature and docstring by name; empty without Triton."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return {}
    folder = Path(spec.origin).parent / "language"
    found: dict[str, str] = {}
    for file in TRITON_FILES:
        path = folder / file
        tree = parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module(body=[], type_ignores=[])
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and _exported(node):
                found.setdefault(node.name, _documented(node))
            elif isinstance(node, ast.ClassDef) and node.name in ("range", "static_range"):
                found.setdefault(node.name, f"tl.{node.name}\n{ast.get_docstring(node) or ''}".strip())
    return found


def _exported(node: ast.FunctionDef) -> bool:
    """Triton marks what kernels may call by a decorator: builtin, jit or one of its own."""
    marks = {ast.unparse(mark).split("(")[0] for mark in node.decorator_list}
    return bool(
        marks & {"builtin", "jit", "core.builtin", "core.extern", "_tensor_member_fn", "core._tensor_member_fn"}
    )


def _documented(node: ast.FunctionDef) -> str:
    arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    defaults = [ast.unparse(d) for d in node.args.defaults]
    plain = len(arguments) - len(node.args.kwonlyargs) - len(defaults)
    shown = [
        name if not plain <= index < plain + len(defaults) else f"{name}={defaults[index - plain]}"
        for index, name in enumerate(arguments)
    ]
    shown = [text for text in shown if not text.startswith("_")]
    lines = (ast.get_docstring(node) or "").splitlines()[:MOST_LINES]
    return "\n".join([f"tl.{node.name}({', '.join(shown)})", *lines]).strip()
