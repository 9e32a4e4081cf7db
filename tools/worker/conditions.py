"""What else may move a measurement: clocks, throttling, other processes. Read through NVML, never set."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from .device_probe import handle_of


@dataclass(frozen=True)
class Conditions:
    """One look at the card; None where NVML does not say."""

    sm_clock_mhz: int | None = None
    throttle: int = 0
    """NVML's bit mask of throttle reasons."""


_REASONS = {0x4: "software power cap", 0x8: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal"}


@cache
def _handle(index: int) -> Any:
    try:
        import pynvml
    except ImportError:
        return None  # an optional package
    try:
        pynvml.nvmlInit()
        return pynvml, handle_of(pynvml, index)
    except pynvml.NVMLError:
        return None  # a driver without NVML


def read(device: torch.device) -> Conditions:
    """The card's present clocks and throttle reasons."""
    found = _handle(device.index or 0) if device.type == "cuda" else None
    if found is None:
        return Conditions()
    nvml, handle = found
    try:
        clock = int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        return Conditions(clock, int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)))
    except nvml.NVMLError:
        return Conditions()


def cause(before: Conditions, device: torch.device) -> str:
    """The likely cause of an unstable timing, as far as the card tells."""
    after = read(device)
    for bit, name in _REASONS.items():
        if (before.throttle | after.throttle) & bit:
            return f"the card throttles ({name})"
    if before.sm_clock_mhz and after.sm_clock_mhz and abs(before.sm_clock_mhz - after.sm_clock_mhz) > 50:
        return f"clocks moved from {before.sm_clock_mhz} to {after.sm_clock_mhz} MHz"
    return "atomics or contention in the kernel, or another process"
