"""A kernel that holds every multiprocessor while the host enqueues a timed call.

What waits behind it cannot start early on another stream: two blocks of 1024 threads fill all 2048 threads that a
multiprocessor has (CUDA C++ Programming Guide, table of technical specifications), so no other block finds room.

    python -m warpsmith.tools.worker.blocker sm_90

prints its cubin in base64. NVRTC opens the GPU's control device, so the fork server cannot compile it.
"""

import base64
import ctypes
import sys
from collections.abc import Callable
from typing import Any

_THREADS = 1024
_SOURCE = rb"""
extern "C" __global__ void __launch_bounds__(1024, 2) hold_all(unsigned long long nanoseconds) {
    unsigned long long started, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(started));
    do {
        __nanosleep(200);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - started < nanoseconds);
}
"""


def compiled(arch: str) -> bytes:
    """The kernel's cubin for an architecture such as `sm_90`. Needs NVRTC, no GPU. Raises RuntimeError."""
    from cuda.bindings import nvrtc

    program = checked(nvrtc.nvrtcCreateProgram(_SOURCE, b"hold_all.cu", 0, [], []))
    try:
        checked(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={arch}".encode()]))
        text = bytes(int(checked(nvrtc.nvrtcGetCUBINSize(program))))
        checked(nvrtc.nvrtcGetCUBIN(program, text))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return text


def load(cubin: str) -> Callable[[float], None]:
    """A function that holds the current GPU, from its place in the current stream on, for so many milliseconds.

    `cubin` as this module prints it. Raises ImportError, ValueError or RuntimeError where that cannot be had.
    """
    import torch
    from cuda.bindings import driver

    kernel = kernel_of(cubin)
    device = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(device)
    blocks = properties.multi_processor_count * (properties.max_threads_per_multi_processor // _THREADS)
    launch, stream_of = driver.cuLaunchKernel, torch.cuda.current_stream

    def hold(lead_ms: float) -> None:
        arguments = ((int(lead_ms * 1e6),), (ctypes.c_ulonglong,))
        checked(launch(kernel, blocks, 1, 1, _THREADS, 1, 1, 0, stream_of().cuda_stream, arguments, 0))

    return hold


def kernel_of(cubin: str) -> Any:
    """The kernel in the current context; it takes the nanoseconds. Raises as `load` does."""
    from cuda.bindings import driver

    if not cubin:
        raise ValueError("it was not compiled")
    module = checked(driver.cuModuleLoadData(base64.b64decode(cubin)))
    return checked(driver.cuModuleGetFunction(module, b"hold_all"))


def checked(result: Any, what: str = "the blocking kernel") -> Any:
    """What a call of the driver returned. Raises RuntimeError that names `what` where it failed."""
    code, *values = result
    if int(code) != 0:
        raise RuntimeError(f"{what}: {code}")
    return values[0] if values else None


if __name__ == "__main__":
    sys.stdout.write(base64.b64encode(compiled(sys.argv[1])).decode())
