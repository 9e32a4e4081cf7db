"""A second context of this process, to come back from before a call that is timed.

A candidate's calls always follow a switch of contexts: the judge's, which writes inputs and empties the cache, to the
candidate's own. A call in the judge's context follows the judge's copies directly, and that shows: a product that reads
470 MB took 109 to 124 us so, from call to call, and 109.2 +- 0.5 after a switch, as in a candidate's process.
"""

import ctypes
from typing import Any

import torch

from . import blocker

_HOLD_NS = 1000


class ContextSwitch:
    """Called, the GPU has run another context's kernel and is idle. Nothing on a CPU.

    `cubin`: the blocking kernel (`blocker.load`). Raises RuntimeError where the driver gives no second context.
    """

    def __init__(self, device: torch.device, cubin: str) -> None:
        self._context: Any = None
        if device.type != "cuda" or not cubin:
            return
        from cuda.bindings import driver

        self._driver = driver
        index = torch.cuda.current_device() if device.index is None else device.index
        place = (0, _checked(driver.cuDeviceGet(index)))
        # CUDA 13's bindings take what a context is created with first; CUDA 12's have no such argument.
        self._context = _checked(driver.cuCtxCreate(*((None, *place) if driver.CUDA_VERSION >= 13_000 else place)))
        try:
            self._kernel = blocker.kernel_of(cubin)
        finally:
            _checked(driver.cuCtxPopCurrent())

    def __call__(self) -> None:
        if self._context is None:
            return
        driver = self._driver
        _checked(driver.cuCtxPushCurrent(self._context))
        try:
            arguments = ((_HOLD_NS,), (ctypes.c_ulonglong,))
            _checked(driver.cuLaunchKernel(self._kernel, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0))
            _checked(driver.cuCtxSynchronize())
        finally:
            _checked(driver.cuCtxPopCurrent())


def _checked(result: Any) -> Any:
    return blocker.checked(result, "a second context on the GPU")
