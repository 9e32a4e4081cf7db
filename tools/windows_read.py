"""Which places a window that moves along one dimension ever looks at: strides may pass over some, padding hides some.

Output `o` and tap `j` of the window look at place `o * stride + j * dilation - padding`, where that is in the input.
"""


def positions_read(size: int, outputs: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    """Places of an input of `size` that any output looks at."""
    by_remainder: dict[int, list[tuple[int, int]]] = {}
    for tap in range(taps):
        shift = tap * dilation - padding
        # Places of one remainder by the stride are numbered along; each tap walks a stretch of them.
        last = (size - 1 - shift % stride) // stride
        first = shift // stride
        stretch = (max(0, first), min(last, first + outputs - 1))
        by_remainder.setdefault(shift % stride, []).append(stretch)
    return sum(_length_of_union(stretches) for stretches in by_remainder.values())


def taps_read(size: int, outputs: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    """Taps of the window that lie in the input for any output."""
    looking = 0
    for tap in range(taps):
        shift = tap * dilation - padding
        first = max(0, -(shift // stride))
        looking += first < outputs and first * stride + shift < size
    return looking


def _length_of_union(stretches: list[tuple[int, int]]) -> int:
    total, end = 0, -1
    for start, stop in sorted(stretches):
        total += max(0, stop - max(start, end + 1) + 1)
        end = max(end, stop)
    return total
