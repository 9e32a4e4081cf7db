"""Looks at the GPU once: limits from the driver, copy bandwidth and matrix rates from a clock."""

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from .. import wire

_COPY_BYTES = 2 << 30
_MATMUL_SIZE = 8192


def main(channel: socket.socket, _params: dict[str, Any]) -> None:
    """Sends one sheet, or the reason for none."""
    try:
        if not torch.cuda.is_available():
            wire.send(channel, {"gpu": None, "why": "PyTorch sees no GPU"})
            return
        torch.cuda.set_device(0)
        wire.send(channel, {"gpu": probe()})
    except Exception as error:  # noqa: BLE001 - the worker boundary
        wire.send(channel, {"gpu": None, "why": f"{type(error).__name__}: {error}"})


def probe() -> dict[str, Any]:
    """Facts of the current device, rates in bytes/s and FLOP/s."""
    device = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(device)
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return {
        "name": properties.name,
        "arch": f"sm_{properties.major}{properties.minor}",
        "sm_count": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "shared_bytes_per_block": properties.shared_memory_per_block_optin,
        "shared_bytes_per_sm": properties.shared_memory_per_multiprocessor,
        "registers_per_sm": properties.regs_per_multiprocessor,
        "max_threads_per_sm": properties.max_threads_per_multi_processor,
        "memory_bytes": total_bytes,
        "free_bytes": free_bytes,
        "copy_bytes_per_s": _copy_rate(),
        "matmul_flops": _matmul_rates(),
        **_from_driver(device),
    }


def _from_driver(device: int) -> dict[str, Any]:
    """Data-sheet bandwidth from clock and bus width (two transfers a clock), driver version, other processes."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = handle_of(pynvml, device)
        clock_hz = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM) * 1e6
        bus_bytes = pynvml.nvmlDeviceGetMemoryBusWidth(handle) / 8
        others = len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
        return {
            "peak_bytes_per_s": 2 * clock_hz * bus_bytes,
            "driver": str(pynvml.nvmlSystemGetDriverVersion()),
            "processes": others,
        }
    except Exception:  # noqa: BLE001 - without NVML the sheet falls back to its table
        return {"peak_bytes_per_s": 0.0, "driver": "", "processes": 0}


def handle_of(nvml: Any, device: int) -> Any:
    """NVML's handle of a device that torch numbers otherwise (CUDA_VISIBLE_DEVICES): matched by its UUID."""
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")


def _best_ms(call: Callable[[], Any], repeats: int = 12) -> float:
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return min(times)


def _copy_rate() -> float:
    source = torch.empty(_COPY_BYTES // 4, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    return 2 * _COPY_BYTES / (_best_ms(lambda: target.copy_(source)) * 1e-3)


def _matmul_rates() -> dict[str, float]:
    rates = {}
    flops = 2.0 * _MATMUL_SIZE**3
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)):
        a = torch.empty(_MATMUL_SIZE, _MATMUL_SIZE, dtype=dtype, device="cuda").normal_()
        b = torch.empty_like(a).normal_()
        rates[name] = flops / (_best_ms(partial(torch.matmul, a, b), 5) * 1e-3)
    torch.backends.cuda.matmul.allow_tf32 = True
    rates["tf32"] = flops / (_best_ms(partial(torch.matmul, a, b), 5) * 1e-3)
    return rates
