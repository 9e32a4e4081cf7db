"""How much wall time a claimed time explains."""

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
