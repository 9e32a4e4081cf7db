"""Sees writes past the end of an output: the allocator's slack behind it is filled with a pattern before the call.

PyTorch's allocator hands out blocks in multiples of 512 bytes. What lies between the end of a tensor's storage and the
end of its block belongs to nobody, and an unmasked store of the last tile lands there. The allocator's own trace tells
where a temporary of the same call lay there before. Evidence from inside the candidate's process: it convicts, it never
acquits.
"""

from typing import Any

import torch

from . import structure

_BLOCK_BYTES = 512
_PATTERN = 0xA5
_RETURNED = ("segment_free", "segment_unmap", "oom")
_SMALL_BYTES = 1 << 20
"""The largest tensor that the allocator serves from its pool of small blocks."""
_LARGE_BYTES = 96 << 20


class Canary:
    """Fills the free memory of the current GPU; afterwards looks behind outputs that came from there."""

    def __init__(self, device: torch.device) -> None:
        self._ranges: list[tuple[int, int]] = []
        if device.type != "cuda":
            return
        torch.cuda.empty_cache()
        sizes = [_SMALL_BYTES] * 4 + [_LARGE_BYTES]
        filler = [torch.full((size,), _PATTERN, dtype=torch.uint8, device=device) for size in sizes]
        ranges = [(block.data_ptr(), block.data_ptr() + block.numel()) for block in filler]
        torch.cuda.synchronize()
        if _record(True):
            self._ranges = ranges

    def overrun(self, result: Any) -> str:
        """Which output was written beyond; empty if none, or if nothing can be said."""
        if not self._ranges:
            return ""
        allocated = _allocations()
        _record(False)
        if allocated is None:
            return ""
        _, tensors = structure.flatten(result)
        for number, tensor in enumerate(tensors):
            slack = self._slack(tensor)
            if slack is None:
                continue
            storage = tensor.untyped_storage().data_ptr()
            if lain_there(allocated, storage, slack.data_ptr() + slack.numel()) > 1:
                continue  # A temporary lay there before the output, and may have been longer.
            if bool((slack != _PATTERN).any()):
                return f"output {number}"
        return ""

    def _slack(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The bytes behind a tensor's storage, where they were filled before the call."""
        storage = tensor.untyped_storage()
        start, size = storage.data_ptr(), storage.nbytes()
        end = start + -(-size // _BLOCK_BYTES) * _BLOCK_BYTES
        if start + size == end or not any(low <= start and end <= high for low, high in self._ranges):
            return None
        if start % _BLOCK_BYTES:
            return None
        return torch.as_tensor(_Bytes(start + size, end - start - size), device=tensor.device)


def _record(on: bool) -> bool:
    """Switches the allocator's trace; whether this PyTorch has it."""
    try:
        torch.cuda.memory._record_memory_history("all" if on else None, context=None, clear_history=True)
    except (AttributeError, TypeError, RuntimeError):
        return False
    return True


def _allocations() -> list[tuple[int, int]] | None:
    """Start and size of every block handed out since the trace began.

    None if memory went back to the driver in between, as where it was short: what comes from there has no pattern.
    """
    events = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    if any(event["action"] in _RETURNED for event in events):
        return None
    return [(int(event["addr"]), int(event["size"])) for event in events if event["action"] == "alloc"]


def lain_there(allocated: list[tuple[int, int]], start: int, end: int) -> int:
    """How many of these blocks (start, size) lay within an output's block during the call; the output's own is one.

    A temporary that had the very same block counts as well: its last bytes may lie behind the output's.
    """
    return sum(first < end and start < first + max(1, size) for first, size in allocated)


class _Bytes:
    """Device memory as torch reads it."""

    def __init__(self, pointer: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (pointer, False),
            "shape": (size_bytes,),
            "typestr": "|u1",
            "version": 3,
        }
