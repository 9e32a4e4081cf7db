"""How much of the device's memory a candidate keeps, as the judge's own process sees it from outside."""

from collections.abc import Callable

import torch

from ...state.evaluation import Status
from .buffers import DeviceBuffer
from .session import CandidateFailed

MOST_SHARE = 0.5
"""Of the device's memory: the judge needs room for draws, baselines and oracles, and others who share the GPU do."""
_TIMES_ITS_TENSORS = 4
"""A candidate may keep so many times what the main workload's inputs and outputs take, where that is more."""
_GIB = 1 << 30

Reading = Callable[[], tuple[int, int]]
"""Bytes that other processes than this one hold, and all that the device has."""


class DeviceMemory:
    """What the device's other processes held before a candidate was loaded, to compare with what they hold later."""

    def __init__(self, tensor_bytes: int, read: Reading) -> None:
        self._read = read
        self._before_bytes, total_bytes = read()
        self.most_bytes = max(int(MOST_SHARE * total_bytes), _TIMES_ITS_TENSORS * tensor_bytes)

    def hold(self) -> None:
        """Raises CandidateFailed where more than the allowed was taken since."""
        kept_bytes = self._read()[0] - self._before_bytes
        if kept_bytes > self.most_bytes:
            text = f"keeps {kept_bytes / _GIB:.1f} GiB of device memory; {self.most_bytes / _GIB:.1f} GiB are allowed"
            raise CandidateFailed(Status.RESOURCE, text)


def of_others() -> tuple[int, int]:
    """A reading of the current GPU; this process's own share is what PyTorch keeps, used or not, and shared buffers."""
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return total_bytes - free_bytes - torch.cuda.memory_reserved() - DeviceBuffer.held_bytes, total_bytes


def nothing() -> tuple[int, int]:
    """A reading where there is no GPU: nothing is ever taken."""
    return 0, 0
