"""Where an output is wrong, as a class: what a writer can act on, and all that is told of a hidden workload."""

from collections.abc import Iterator

import torch

from ...state.evaluation import Place
from .compare import ELEMENT_ROUNDINGS, UNIT_ROUNDOFF

_CHUNK = 1 << 25
_LEAST_AXIS = 8
"""Shorter dimensions have no tail or edge to speak of."""
_TILES = (1024, 512, 256, 128, 64, 32, 16, 8)


def beyond(actual: torch.Tensor, expected: torch.Tensor, limit: float) -> torch.Tensor:
    """Elements that are off by more than `limit` (absolute) and a few roundings, or not finite where they should be.

    `actual` floating, `expected` of its shape; the result is a bool tensor of that shape.
    """
    unit = UNIT_ROUNDOFF[actual.dtype]
    flat, wanted = actual.reshape(-1), expected.reshape(-1)
    wrong = torch.empty(flat.shape, dtype=torch.bool, device=flat.device)
    for start in range(0, flat.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        got, want = flat[part].double(), wanted[part].double()
        near = want.isfinite() & ((got - want).abs() <= limit + ELEMENT_ROUNDINGS[actual.dtype] * unit * want.abs())
        wrong[part] = ~(near | (got == want) | (got.isnan() & want.isnan()))
    return wrong.reshape(actual.shape)


def place(wrong: torch.Tensor) -> Place:
    """The class of a set of wrong elements (a bool tensor in the output's shape).

    `whole`: more than half, or none by itself; `tail`: only the second half of a dimension, its last index among them;
    `border`: only the first and last index of one; `one_channel`: one index of one; `tile_edge`: only indices beside
    multiples of a tile; `one_element` and `scattered` are what they say.
    """
    count = int(wrong.sum())
    if count == 0 or 2 * count > wrong.numel():
        return "whole"
    axes = list(_axes(wrong))
    if any(_is_tail(indices, size) for indices, size in (*axes, (_indices(wrong.reshape(-1)), wrong.numel()))):
        return "tail"
    if count == 1:
        return "one_element"
    if any(len(indices) == 1 and size > 1 for indices, size in axes) and wrong.dim() > 1:
        return "one_channel"
    if any(_is_border(indices, size) for indices, size in axes):
        return "border"
    return "tile_edge" if any(_at_tile_edges(indices, size) for indices, size in axes) else "scattered"


def _axes(wrong: torch.Tensor) -> Iterator[tuple[torch.Tensor, int]]:
    """For each dimension the sorted indices that have a wrong element, and its size."""
    for axis, size in enumerate(wrong.shape):
        before = wrong.shape[:axis].numel()
        yield _indices(wrong.reshape(before, size, -1).any(0).any(-1)), size


def _indices(lines: torch.Tensor) -> torch.Tensor:
    return lines.nonzero().reshape(-1)


def _is_tail(indices: torch.Tensor, size: int) -> bool:
    return size >= _LEAST_AXIS and int(indices[0]) >= size // 2 and int(indices[-1]) == size - 1


def _is_border(indices: torch.Tensor, size: int) -> bool:
    return size >= _LEAST_AXIS and bool(((indices == 0) | (indices == size - 1)).all())


def _at_tile_edges(indices: torch.Tensor, size: int) -> bool:
    """At least two of the inner edges of one tile size, and nothing else; the size's own ends do not tell."""
    inner = indices[(indices > 0) & (indices < size - 1)]
    if len(inner) < 2:
        return False
    beside = (((indices % tile == 0) | (indices % tile == tile - 1)).all() for tile in _TILES if tile < size)
    return any(bool(every) for every in beside)
