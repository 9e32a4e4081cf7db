"""A GPU that only compiles: stands in for Triton's driver, CuPy's modules and torch.cuda inside a compile worker."""

import contextlib
import subprocess
import types
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import resources


class CompileFailed(Exception):
    """A compiler refused a kernel."""


class Trace:
    """Kernels compiled and launches seen while a candidate's forward runs on fake tensors."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.capability = int("".join(c for c in arch if c.isdigit()))
        self.kernels: dict[str, resources.KernelFacts] = {}
        self.library: list[dict[str, Any]] = []
        """What was left to PyTorch."""
        self._launches: list[dict[str, Any]] = []
        self._bytes: dict[int, int] = {}
        self._next_address = 1 << 40

    def address(self, tensor: torch.Tensor) -> int:
        """A made-up device address: aligned as the real one would be, distinct a storage."""
        storage = tensor.untyped_storage()
        base = getattr(storage, "_warpsmith_address", None)
        if base is None:
            base = self._next_address
            self._next_address += (storage.nbytes() + 511) // 512 * 512 + 512
            with contextlib.suppress(AttributeError):
                storage._warpsmith_address = base
            self._storages = [*getattr(self, "_storages", []), storage]
        address = base + tensor.storage_offset() * tensor.element_size()
        self._bytes[address] = max(self._bytes.get(address, 0), tensor.numel() * tensor.element_size())
        return int(address)

    def watch(self, values: list[Any]) -> None:
        """Gives tensors their addresses before the forward runs."""
        for value in values:
            if isinstance(value, torch.Tensor):
                self.address(value)

    def launched(
        self, name: str, grid: tuple[int, ...], num_warps: int, tensor_bytes: int, dynamic_bytes: int = 0
    ) -> None:
        """Notes a launch. `dynamic_bytes`: shared memory a block that the launch asks for beside the kernel's own."""
        blocks = 1
        for size in grid:
            blocks *= int(size)
        facts = resources.for_launch(self.kernels.get(name))
        shared = {"shared_bytes": facts.get("shared_bytes", 0) + dynamic_bytes}
        self._launches.append(
            {"kernel": name, "blocks": blocks, "num_warps": num_warps, "tensor_bytes": tensor_bytes, **facts, **shared}
        )

    def bytes_at(self, arguments: list[Any]) -> int:
        """Bytes behind those arguments that are addresses of known tensors."""
        return sum(self._bytes.get(int(a), 0) for a in arguments if not isinstance(a, bool) and hasattr(a, "__int__"))

    def launch_records(self) -> list[dict[str, Any]]:
        """Launches with the static facts of their kernels."""
        return self._launches


class OnCpu(TorchFunctionMode):
    """Fake tensors live on the CPU, where requests for a GPU go: PyTorch without CUDA cannot fake another device."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_function__(self, func: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.data_ptr:
            return self.trace.address(args[0])
        if func is torch.Tensor.cuda:
            return args[0]
        if func == torch.Tensor.is_cuda.__get__:  # a new wrapper at each look, so never the same object
            return True
        if func in (torch.Tensor.record_stream, torch.Tensor.pin_memory):
            return args[0]
        kwargs = {k: _cpu(v) for k, v in (kwargs or {}).items()}
        return func(*[_cpu(a) for a in args], **kwargs)


def _cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.split(":")[0] == "cuda" else value


def install(trace: Trace) -> None:
    """Replaces drivers and launches in this process, for good."""
    _install_torch(trace)
    _install_triton(trace)
    with contextlib.suppress(ImportError):
        _install_cupy(trace)


class _Stream:
    cuda_stream = ptr = 0
    device = torch.device("cpu")

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def _install_torch(trace: Trace) -> None:
    properties = types.SimpleNamespace(
        name="target",
        major=trace.capability // 10,
        minor=trace.capability % 10,
        multi_processor_count=132,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block_optin=227 << 10,
        shared_memory_per_multiprocessor=228 << 10,
        L2_cache_size=60 << 20,
        regs_per_multiprocessor=65536,
        total_memory=141 << 30,
    )
    stand_ins: dict[str, Any] = {
        "current_stream": lambda *_, **__: _Stream(),
        "default_stream": lambda *_, **__: _Stream(),
        "Stream": lambda *_, **__: _Stream(),
        "ExternalStream": lambda *_, **__: _Stream(),
        "Event": lambda *_, **__: _Stream(),
        "stream": lambda *_, **__: contextlib.nullcontext(),
        "device": lambda *_, **__: contextlib.nullcontext(),
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "is_available": lambda: True,
        "synchronize": lambda *_, **__: None,
        "empty_cache": lambda: None,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: (properties.major, properties.minor),
        "get_device_name": lambda *_: properties.name,
        "_lazy_init": lambda: None,
    }
    for name, stand_in in stand_ins.items():
        setattr(torch.cuda, name, stand_in)
    torch.nn.Module.cuda = lambda self, *_: self  # type: ignore[method-assign]


class _Driver:
    """What Triton asks a driver while compiling."""

    def __init__(self, capability: int) -> None:
        from triton.backends.compiler import GPUTarget

        self._target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int = 0) -> int:
        return 0

    def get_device_capability(self, _device: int = 0) -> tuple[int, int]:
        return divmod(self._target.arch, 10)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Any:
        return lambda call, **_: (call(), [1.0, 1.0, 1.0])[1]

    @property
    def utils(self) -> Any:
        limits = {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32, "max_num_regs": 65536}
        return types.SimpleNamespace(get_device_properties=lambda _device=0: limits)


class _Pointer:
    """A fake tensor as Triton's specialisation reads it: dtype, and an address for its alignment."""

    def __init__(self, tensor: torch.Tensor, address: int) -> None:
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self._address = address
        self._range = tensor.untyped_storage().nbytes()
        self._stride = tensor.stride()

    def data_ptr(self) -> int:
        return self._address

    def ptr_range(self) -> int:
        return int(self._range)

    def stride(self) -> tuple[int, ...]:
        return self._stride


def _install_triton(trace: Trace) -> None:
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    driver.set_active(_Driver(trace.capability))
    compile_only = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        shown = [_as_pointer(a, trace) for a in args]
        named = {k: _as_pointer(v, trace) for k, v in kwargs.items()}
        kernel = compile_only(self, *shown, grid=grid, warmup=True, **named)
        facts = resources.of_triton(kernel)
        trace.kernels.setdefault(facts.name, facts)
        _compile_launcher(kernel)
        if callable(grid):
            names = [p.name for p in self.params]
            grid = grid({**dict(zip(names, args, strict=False)), **kwargs})
        moved = sum(trace.bytes_at([a.data_ptr()]) for a in [*shown, *named.values()] if isinstance(a, _Pointer))
        trace.launched(facts.name, tuple(grid), facts.num_warps or 4, moved)
        return kernel

    JITFunction.run = run


def _as_pointer(value: Any, trace: Trace) -> Any:
    if isinstance(value, torch.Tensor):
        return _Pointer(value, trace.address(value))
    base = getattr(value, "base", None)
    if isinstance(base, torch.Tensor) and hasattr(value, "block_shape"):
        value.base = _Pointer(base, trace.address(base))
    return value


def _compile_launcher(kernel: Any) -> None:
    """Triton builds a C launcher a signature at the first run; built here, it is in the cache by then."""
    try:
        from triton.backends.nvidia.driver import CudaLauncher

        CudaLauncher(kernel.src, kernel.metadata)
    except (ImportError, OSError, RuntimeError, subprocess.CalledProcessError, AttributeError, TypeError):
        return  # no compiler or no driver library here: the run builds it


class _Kernel:
    """A CUDA kernel that is compiled and never launched."""

    def __init__(self, name: str, trace: Trace) -> None:
        self.name = name
        self._trace = trace
        self.max_dynamic_shared_size_bytes = 0
        self.preferred_shared_memory_carveout = -1

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0, stream: Any = None, **_: Any) -> None:
        threads = 1
        for size in block:
            threads *= int(size)
        moved = self._trace.bytes_at(list(args))
        self._trace.launched(self.name, tuple(grid), max(1, -(-threads // 32)), moved, int(shared_mem))

    @property
    def kernel(self) -> Any:
        return types.SimpleNamespace(ptr=0)

    def __getattr__(self, name: str) -> Any:
        return 0


def _as_cupy_does(options: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Options with CuPy's and CUDA's include folders, and the headers that count in the cache's key: a run looks for
    what was compiled with exactly these."""
    from cupy._core import core

    assemble = getattr(core, "assemble_cupy_compiler_options", None)
    headers = getattr(core, "_get_header_source", None)
    return (assemble(options) if assemble else options), (headers() if headers else None)


class _LoadedModule:
    """Takes the place of a module on the device."""

    def load(self, cubin: bytes) -> None:
        self.cubin = cubin

    def _set_mapping(self, mapping: Any) -> None:
        self.mapping = mapping or {}


def _raw_classes(trace: Trace) -> tuple[type[Any], type[Any]]:
    """What takes the places of `cupy.RawModule` and `cupy.RawKernel`."""
    from cupy.cuda import compiler

    class RawModule:
        """`cupy.RawModule` up to the point where it would load."""

        def __init__(self, *, code: str, options: tuple[str, ...] = (), name_expressions: Any = None, **_: Any) -> None:
            self.code, self.options, self.names = code, tuple(options), name_expressions
            self._loaded: _LoadedModule | None = None

        def compile(self, log_stream: Any = None) -> None:
            if self._loaded is None:
                options, headers = _as_cupy_does(self.options)
                self._loaded = compiler._compile_module_with_cache(
                    self.code,
                    options,
                    arch=str(trace.capability),
                    extra_source=headers,
                    name_expressions=self.names,
                )
                for facts in resources.of_cubin(self._loaded.cubin, trace.capability):
                    trace.kernels[facts.name] = facts

        def get_function(self, name: str) -> _Kernel:
            self.compile()
            if trace.kernels and name not in trace.kernels and not self.names:
                found = ", ".join(trace.kernels)
                raise CompileFailed(f'no kernel {name!r} in the module (found: {found}); is extern "C" missing?')
            return _Kernel(name, trace)

    class RawKernel(_Kernel):
        def __init__(self, code: str, name: str, options: tuple[str, ...] = (), **_: Any) -> None:
            super().__init__(name, trace)
            RawModule(code=code, options=options).get_function(name)

    return RawModule, RawKernel


def _install_cupy(trace: Trace) -> None:
    import cupy
    from cupy.cuda import compiler

    compiler.function = types.SimpleNamespace(
        Module=_LoadedModule, LinkState=getattr(compiler.function, "LinkState", None)
    )
    # CuPy asks the device for its architecture; here it is the target's.
    compiler._get_arch = lambda: str(trace.capability)
    compiler._get_arch_for_options_for_nvrtc = lambda arch=None: (f"-arch=sm_{arch or trace.capability}", "cubin")
    cupy.cuda.driver = types.SimpleNamespace(funcSetAttribute=lambda *_: None, CUDADriverError=RuntimeError)
    cupy.RawModule, cupy.RawKernel = _raw_classes(trace)
    cupy.cuda.ExternalStream = lambda *_, **__: _Stream()
    cupy.cuda.Stream = lambda *_, **__: _Stream()
