"""Where inputs lie in memory: as the problem makes them, off every alignment, or as views of larger tensors."""

from collections.abc import Callable
from typing import Literal

from ...state.problem import TensorSpec
from . import buffers

Name = Literal["plain", "misaligned", "strided"]
LABELS: dict[Name, str] = {"strided": "assumes_contiguous", "misaligned": "assumes_aligned"}
"""What a candidate is called that does not answer other layouts rightly; what can crash comes last."""
_PADDING = 3


def strided(spec: TensorSpec) -> TensorSpec:
    """The same tensor as a slice of one with longer rows, or as every second element; expanded ones stay."""
    if not spec.shape or 0 in spec.shape or 0 in spec.strides:
        return spec
    innermost = min(range(len(spec.shape)), key=lambda dim: (spec.strides[dim], -dim))
    if len(spec.shape) == 1 or spec.shape[innermost] == 1:
        return spec.model_copy(update={"strides": tuple(2 * s for s in spec.strides)})
    # Every dimension but the innermost moves by whole rows, so a longer row stretches it in proportion.
    row = spec.shape[innermost] * spec.strides[innermost]
    outer = [s for dim, s in enumerate(spec.strides) if dim != innermost]
    if any(s % row for s in outer):
        return spec
    longer = row + _PADDING * spec.strides[innermost]
    strides = tuple(s if dim == innermost else s // row * longer for dim, s in enumerate(spec.strides))
    return spec.model_copy(update={"strides": strides})


SPECS: dict[Name, Callable[[TensorSpec], TensorSpec]] = {
    "plain": lambda spec: spec,
    "misaligned": lambda spec: spec,
    "strided": strided,
}


def skew_bytes(layout: Name, specs: list[TensorSpec]) -> list[int]:
    """Bytes by which each tensor starts off its alignment: one element where `misaligned`."""
    return [buffers.dtype_of(s.dtype).itemsize if layout == "misaligned" else 0 for s in specs]
