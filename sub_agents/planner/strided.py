"""Chains of views as one strided view of the tensor at their end."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ...state.program import Operand, WindowAxis, Windows
from ...state.sizes import Size, product
from .index_maps import MAX_SPLITS, Axis, NeedSplit, NotAffine, SplitAxes, contiguous_strides, strides_over
from .layout import through_view
from .tensors import Tensor


def base_of(tensor: Tensor) -> Tensor:
    """The tensor under a chain of views."""
    while tensor.is_view:
        tensor = tensor.operands[0]
    return tensor


def strided(tensor: Tensor) -> Operand:
    """A tensor as a strided view of its base, one stride a dimension. Raises NotAffine where it is none."""
    if tensor.kind == "unfold":
        return _unfolded(tensor)
    split: dict[Axis, Size] = {}
    for _ in range(MAX_SPLITS):
        try:
            return _strided(tensor, split)
        except NeedSplit as need:
            split[need.axis] = need.inner
    raise NotAffine("too many splits")


def _unfolded(tensor: Tensor) -> Operand:
    seen = strided(tensor.operands[0])
    batch = len(tensor.shape) - 2
    channels, *lengths = tensor.operands[0].shape[batch:]
    channel_walk, *walks = seen.strides[batch:]
    axes = tuple(
        WindowAxis(
            taps=axis.size,
            dilation=axis.dilation,
            stride=axis.stride,
            padding=axis.padding,
            behind=axis.behind,
            places=axis.outputs,
            length=length,
            walk=walk,
        )
        for axis, length, walk in zip(tensor.axes, lengths, walks, strict=True)
    )
    windows = Windows(channels=int(channels), channel_walk=channel_walk, axes=axes)
    return seen.model_copy(update={"strides": (*seen.strides[:batch], 0, 0), "windows": windows})


def _strided(tensor: Tensor, split: Mapping[Axis, Size]) -> Operand:
    axes = SplitAxes(split)
    dims = [axes.index(f"d{d}", size) for d, size in enumerate(tensor.shape)]
    index_map, base = tuple(dims), tensor
    while base.is_view:
        index_map = through_view(base, index_map, axes.sizes)
        base = base.operands[0]
    own = base.strides if base.kind == "leaf" else contiguous_strides(base.shape)
    strides, offset = strides_over(index_map, own, list(axes.sizes))
    by_axis = dict(zip(axes.sizes, strides, strict=True))
    joined = tuple(_joined([axis for axis, _ in dim.terms], by_axis, axes.sizes) for dim in dims)
    return Operand(value=base.name, dtype=base.dtype, strides=joined, offset=offset)


def _joined(axes: Sequence[Axis], strides: Mapping[Axis, Size], sizes: Mapping[Axis, Size]) -> Size:
    """The one stride of the axes that a dimension was split into."""
    for outer, inner in pairwise(axes):
        if strides[outer] != product((strides[inner], sizes[inner])):
            raise NotAffine("a dimension without one stride")
    return strides[axes[-1]] if axes else 0


def viewable(tensor: Tensor) -> bool:
    """Whether it is a strided view of its base."""
    try:
        strided(tensor)
    except NotAffine:
        return False
    return True
