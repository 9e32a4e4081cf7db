"""Where outputs are wrong, by class, on the mistakes that kernels make."""

import pytest
import torch

from warpsmith.tools.worker import mismatch


def wrong(shape: tuple[int, ...], *where: tuple[slice | int, ...]) -> torch.Tensor:
    mask = torch.zeros(shape, dtype=torch.bool)
    for index in where:
        mask[index] = True
    return mask


every = slice(None)


@pytest.mark.parametrize(
    ("mask", "place"),
    [
        (wrong((1000,), (slice(768, None),)), "tail"),
        (wrong((100,), (slice(64, None),)), "tail"),
        (wrong((129, 64), (128, every)), "tail"),
        (wrong((64, 1021), (every, slice(960, None))), "tail"),
        (wrong((16, 16, 33), (every, every, 32)), "tail"),
        (wrong((64, 64), (5, every)), "one_channel"),
        (wrong((8, 3, 40), (every, 1, every)), "one_channel"),
        (wrong((2, 100), (1, every)), "tail"),  # the second half of the memory
        (wrong((300,), (7,)), "one_element"),
        (wrong((30, 30), (0, every), (29, every)), "border"),
        (wrong((256,), (slice(63, None, 64),)), "tile_edge"),
        (wrong((64, 200), (every, slice(32, None, 32))), "tile_edge"),
        (wrong((300,), (3,), (70,), (113,)), "scattered"),
        (wrong((10, 10), (every, every)), "whole"),
        (wrong((10, 10), (slice(0, 6), every)), "whole"),
        (wrong((50,)), "whole"),  # no element is wrong by itself: the error is spread
        (wrong(()), "whole"),
        (wrong((0, 4)), "whole"),
    ],
)
def test_places(mask: torch.Tensor, place: str) -> None:
    assert mismatch.place(mask) == place


def test_what_is_beyond_a_limit_and_what_is_not_finite_is_wrong() -> None:
    nan, infinity = float("nan"), float("inf")
    expected = torch.tensor([1.0, 1.0, nan, infinity, infinity, 2.0, 1.0], dtype=torch.float64)
    actual = torch.tensor([1.05, 1.2, nan, infinity, 3.0, nan, 1.0])
    assert mismatch.beyond(actual, expected, 0.1).tolist() == [False, True, False, False, True, True, False]


def test_roundings_of_a_large_value_are_not_wrong() -> None:
    expected = torch.full((4,), 1e6, dtype=torch.float64)
    assert not mismatch.beyond(expected.bfloat16(), expected, 0.0).any()
    assert mismatch.beyond(expected.bfloat16() * 1.1, expected, 0.0).all()
