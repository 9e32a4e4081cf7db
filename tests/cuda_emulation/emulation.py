"""Compiles rendered CUDA C++ with g++ and runs it on CPU memory, so that kernels' numbers are tested without a GPU.

`emulate` runs one kernel on numpy arrays or CPU tensors. `run` runs the whole host function of a `KernelSource` with
stand-ins for cupy and torch's streams: argument types are held against the kernel's signature, and every output lies
between guard bytes that must survive.

Device functions with inline PTX are cut out; `cuda_emulation.hpp` (or `extra`) defines them again for the CPU.
"""

import ctypes
import functools
import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy

_HEADER = Path(__file__).with_name("cuda_emulation.hpp")
_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-w", "-fno-strict-aliasing", "-ffp-contract=off")
_HALVES = """
inline float to_float(float16 x) { return emulated_half_value(x.bits); }
inline float16 to_float16(float x) { return {emulated_half_bits(x)}; }
inline bfloat16 to_bfloat16(float x) { return {emulated_bfloat16_bits(x)}; }
"""
_GUARD_BYTES = 256


class EmulationError(Exception):
    """The kernel does not compile for the CPU, was called wrongly, deadlocked or wrote outside its output."""


def emulate(source: str, kernel: str, grid: Any, block: Any, args: Any, **options: Any) -> None:
    """Runs one kernel. `args` are numpy arrays, CPU tensors, numpy scalars, or ints for addresses.

    Options: `shared_bytes` (dynamic), `cluster` (blocks a cluster), `defines` (compiler options), `extra` (C++
    functions that replace further PTX). Raises EmulationError.
    """
    shared_bytes, cluster = options.pop("shared_bytes", 0), options.pop("cluster", 1)
    module = Module(source, options.pop("defines", ()), options.pop("extra", ""))
    module.launch(kernel, (tuple(grid), tuple(block)), args, shared_bytes, cluster)


class Module:
    """A compiled source, as `cupy.RawModule` is."""

    def __init__(self, code: str, options: tuple[str, ...] = (), extra: str = "") -> None:
        self.code, self.names = code, _kernel_names(code)
        self._library = _compiled(_translated(code, extra), tuple(o for o in options if o.startswith("-D")))

    def get_function(self, name: str) -> "Kernel":
        if name not in self.names:
            raise EmulationError(f"no kernel {name} in the source, only {self.names}")
        return Kernel(self, name)

    def static_bytes(self) -> int:
        """Static shared memory of all kernels in the source, in bytes."""
        return int(self._library.emulated_static_bytes())

    def launch(self, name: str, shape: Any, args: Any, shared_bytes: int, cluster: int) -> None:
        """Runs a grid to its end. `shape` is (grid, block), each of up to three sizes."""
        grid, block = ((*sizes, 1, 1, 1)[:3] for sizes in shape)
        threads = block[0] * block[1] * block[2]
        if min(grid) < 1 or not 1 <= threads <= 1024:
            raise EmulationError(f"{name}: illegal launch of {grid} blocks of {block} threads")
        kept = [_packed(arg) for arg in args]
        signature = getattr(self._library, f"signature_{name}")().decode().split()
        for i, (wanted, (got, _)) in enumerate(zip(signature, kept, strict=False)):
            if wanted != got:
                raise EmulationError(f"{name}: argument {i} is {got}, the kernel takes {wanted} (letter, bytes)")
        if len(signature) != len(kept):
            raise EmulationError(f"{name}: {len(kept)} arguments, the kernel takes {len(signature)}")
        pointers = (ctypes.c_void_p * max(1, len(kept)))(*[ctypes.cast(b, ctypes.c_void_p) for _, b in kept])
        sizes = (ctypes.c_uint * 6)(*grid, *block)
        status = getattr(self._library, f"launch_{name}")(sizes, cluster, ctypes.c_size_t(shared_bytes), pointers)
        if status:
            raise EmulationError(
                f"{name}: " + ("deadlock at a barrier" if status == 1 else "grid is no multiple of the cluster")
            )


class Kernel:
    """A kernel, called as cupy's are."""

    def __init__(self, module: Module, name: str) -> None:
        self._module, self._name = module, name
        self._limit, self._asked = 48 * 1024, False
        self.kernel = SimpleNamespace(ptr=0)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self._limit

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        if size > 227 * 1024:
            raise EmulationError(f"{self._name}: no block can have {size} bytes of shared memory")
        self._limit, self._asked = size, True

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0, stream: Any = None) -> None:
        if stream is None:
            raise EmulationError(f"{self._name}: launched without a stream")
        static_bytes = 0 if self._asked else self._module.static_bytes()
        if shared_mem and shared_mem > self.max_dynamic_shared_size_bytes - static_bytes:
            raise EmulationError(f"{self._name}: {shared_mem} bytes of shared memory were not asked for")
        found = re.search(r"__cluster_dims__\((\d+)", self._module.code)
        self._module.launch(self._name, (grid, block), args, shared_mem, int(found[1]) if found else 1)


def fake_cupy() -> SimpleNamespace:
    """The part of cupy that candidates use."""
    scalars = {name: getattr(numpy, name) for name in ("int32", "int64", "uint64", "float32", "float64")}
    driver = SimpleNamespace(funcSetAttribute=lambda function, attribute, value: None)
    cuda = SimpleNamespace(ExternalStream=lambda pointer: SimpleNamespace(ptr=pointer), driver=driver)
    return SimpleNamespace(RawModule=lambda *, code, options=(): Module(code, options), cuda=cuda, **scalars)


class FakeTorch:
    """torch with a stream on the CPU and an `empty` that puts guard bytes around its tensors and NaN-like bytes in."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._guarded: list[Any] = []
        self.cuda = SimpleNamespace(current_stream=lambda device=None: SimpleNamespace(cuda_stream=0))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def empty(self, *shape: Any, dtype: Any, device: Any) -> Any:
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        count = int(numpy.prod(sizes, dtype=numpy.int64)) * dtype.itemsize
        buffer = self._torch.full((count + 2 * _GUARD_BYTES,), 0xCB, dtype=self._torch.uint8, device=device)
        # The start of a torch allocation is aligned to 64 bytes on the CPU; keep 16-byte vectors possible.
        self._guarded.append((buffer, count))
        return buffer[_GUARD_BYTES : _GUARD_BYTES + count].view(dtype).view(sizes)

    def check_guards(self) -> None:
        """Raises EmulationError if a kernel wrote past either end of an output."""
        for buffer, count in self._guarded:
            ends = (buffer[:_GUARD_BYTES], buffer[_GUARD_BYTES + count :])
            if any(bool((end != 0xCB).any()) for end in ends):
                raise EmulationError(f"a kernel wrote outside its output of {count} bytes")


def load(imports: tuple[str, ...], code: str, function: str) -> tuple[Any, FakeTorch]:
    """The host function of a candidate's step, with torch and cupy replaced."""
    torch = FakeTorch()
    namespace: dict[str, Any] = {}
    for line in imports:
        if line.split()[1].split(".")[0] not in ("torch", "cupy"):
            exec(line, namespace)
    namespace |= {"torch": torch, "cupy": fake_cupy()}
    exec(compile(code, f"<{function}>", "exec"), namespace)
    return namespace[function], torch


def run(source: Any, tensors: dict[str, Any], symbols: dict[str, int]) -> tuple[Any, ...]:
    """Runs a `KernelSource` on CPU tensors by value name; always a tuple of outputs. Raises EmulationError."""
    function, torch = load(source.imports, source.code, source.function)
    result = function(*(tensors[name] for name in source.reads), *(symbols[name] for name in source.symbols))
    torch.check_guards()
    return result if isinstance(result, tuple) else (result,)


def _kernel_names(code: str) -> list[str]:
    return re.findall(r"__global__[^;{]*?\b(\w+)\s*\((?=[^()]*\)\s*\{)", re.sub(r"__\w+__\([^()]*\)", "", code))


def _translated(code: str, extra: str) -> str:
    text = re.sub(
        r"extern __shared__ (?:alignas\(\d+\) |__align__\(\d+\) )?([\w ]+?) (\w+)\[\];",
        r"\1* \2 = (\1*)emulation::dynamic_shared();",
        _without_assembly(code),
    )
    halves = []
    for line in _HALVES.strip().splitlines():
        if all(f"struct {kind} " in text for kind in re.findall(r"b?float16", line.split("{")[0])):
            halves.append(line)
    for kind in ("bfloat16", "float16"):
        own = [line for line in halves if re.search(rf"\b{kind}\b", line)]
        text = re.sub(rf"(struct {kind} \{{[^}}]*\}};)", lambda m, own=own: m[1] + "\n" + "\n".join(own), text, count=1)
    entries = "".join(
        f'extern "C" int launch_{name}(const unsigned int* shape, int cluster, size_t shared_bytes, void** args) '
        f"{{ return emulation::launch(emulation::Entry<&{name}>::run, shape, cluster, shared_bytes, args); }}\n"
        f'extern "C" const char* signature_{name}() {{ return emulation::Entry<&{name}>::signature(); }}\n'
        for name in _kernel_names(code)
    )
    size = 'extern "C" size_t emulated_static_bytes() { return emulation::statics_bytes(); }'
    return f'#include "cuda_emulation.hpp"\n{extra}\n{text}\n{entries}{size}\n'


def _without_assembly(code: str) -> str:
    """The source without device functions whose bodies hold inline PTX."""
    pieces, position = [], 0
    for match in re.finditer(r"^(?:template <[^\n]*>\s*)?__device__ [^;{}]*\{", code, re.MULTILINE):
        if match.start() < position:
            continue
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        if re.search(r"\basm\b", code[match.end() : end]):
            pieces.append(code[position : match.start()])
            position = end
    return "".join(pieces) + code[position:]


@functools.cache
def _folder() -> Path:
    """Where compiled kernels are kept between runs, with the header compiled once."""
    key = hashlib.sha256(_HEADER.read_bytes() + " ".join(_FLAGS).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"cuda-emulation-{os.getuid()}-{key}"
    folder.mkdir(exist_ok=True)
    target = folder / "cuda_emulation.hpp.gch"
    if not target.exists():
        (folder / "cuda_emulation.hpp").write_bytes(_HEADER.read_bytes())
        partial = folder / f"{os.getpid()}.gch"
        subprocess.run(["g++", *_FLAGS, "-x", "c++-header", str(_HEADER), "-o", str(partial)], check=True)
        partial.rename(target)
    return folder


@functools.cache
def _compiled(text: str, defines: tuple[str, ...]) -> ctypes.CDLL:
    key = hashlib.sha256("\0".join((text, *defines)).encode()).hexdigest()[:24]
    library = _folder() / f"{key}.so"
    if not library.exists():
        source, partial = _folder() / f"{key}.cpp", _folder() / f"{key}.{os.getpid()}.so"
        source.write_text(text)
        command = ["g++", *_FLAGS, *defines, "-I", str(_folder()), "-shared", str(source), "-o", str(partial)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise EmulationError(f"g++ refused {source}:\n{done.stderr[:4000]}")
        partial.rename(library)
    loaded = ctypes.CDLL(str(library))
    for name in re.findall(r"const char\* (signature_\w+)\(\)", text):
        getattr(loaded, name).restype = ctypes.c_char_p
    return loaded


def _packed(arg: Any) -> tuple[str, Any]:
    """Letter and size as in the header's signature, and a buffer that holds the argument."""
    if hasattr(arg, "data_ptr"):
        return "p8", ctypes.pointer(ctypes.c_uint64(arg.data_ptr()))
    if isinstance(arg, numpy.ndarray):
        return "p8", ctypes.pointer(ctypes.c_uint64(arg.ctypes.data))
    if isinstance(arg, numpy.generic):
        if arg.dtype == numpy.uint64:
            return "p8", ctypes.pointer(ctypes.c_uint64(int(arg)))
        letter = "f" if arg.dtype.kind == "f" else "i"
        return f"{letter}{arg.dtype.itemsize}", ctypes.create_string_buffer(arg.tobytes(), arg.dtype.itemsize)
    if type(arg) is int:
        return "p8", ctypes.pointer(ctypes.c_uint64(arg))
    raise EmulationError(f"a kernel argument of type {type(arg).__name__} has no fixed size: use a numpy scalar")
