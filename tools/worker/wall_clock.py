"""How much wall time a claimed time explains."""

import time
from typing import Any

import torch

from .buffers import Layout, dtype_of

_SHARE = 0.25
_SLACK_MS = 0.5
_HOST_FACTOR = 2.0
_HOP_MS = 0.5
_COPY_BYTES_PER_MS = 1e9
"""A copy of an output, read and written, at a quarter of what an H200 reaches."""


def explains(claimed_ms: float, own_host_ms: float, passed_ms: float) -> bool:
    """Whether a call that claims one time on the GPU may have taken the other on the wall, with a margin for Python.

    The margin is half a millisecond and twice what the judge's own call of the baseline takes to enqueue: forging by
    less is seen only by the profiler at the record tier.
    """
    return passed_ms <= (1 + _SHARE) * claimed_ms + _SLACK_MS + _HOST_FACTOR * own_host_ms


def hop_ms(measured_ms: float | None, copied_bytes: int) -> float:
    """What a burst costs beside its calls: as measured with the reference, else a generous estimate.

    `copied_bytes` are copied twice: by the candidate's process to the shared buffers, and by the judge out of them.
    """
    if measured_ms is not None:
        return measured_ms
    return _HOP_MS + 4 * copied_bytes / _COPY_BYTES_PER_MS


def rearranging_ms(described: list[dict[str, Any]], wanted: Layout, device: torch.device) -> float:
    """What copying outputs that lie in another order of dimensions costs more than copying plain ones, in ms.

    `described` is the candidate's word; what such a copy takes is measured here.
    """
    total_ms = 0.0
    for said, spec in zip(described, wanted.specs, strict=True):
        strides = said.get("strides")
        if not _reordered(strides, spec.shape):
            continue
        target = torch.empty(spec.shape, dtype=dtype_of(spec.dtype), device=device)
        other = torch.empty_strided(spec.shape, strides, dtype=target.dtype, device=device)
        total_ms += max(0.0, _copy_ms(target, other) - _copy_ms(target, torch.empty_like(target)))
    return total_ms


def _reordered(strides: Any, shape: tuple[int, ...]) -> bool:
    """Whether these are the strides of a dense tensor whose dimensions are not in their usual order."""
    if not isinstance(strides, list) or len(strides) != len(shape) or not all(type(s) is int for s in strides):
        return False
    wide = [(stride, size) for stride, size in zip(strides, shape, strict=True) if size != 1]
    expected = 1
    for stride, size in sorted(wide):
        if stride != expected:
            return False
        expected *= size
    return wide != sorted(wide, reverse=True)


def _copy_ms(target: torch.Tensor, source: torch.Tensor) -> float:
    best_ms = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        target.copy_(source)
        if target.is_cuda:
            torch.cuda.synchronize()
        best_ms = min(best_ms, (time.perf_counter() - started) * 1e3)
    return best_ms
