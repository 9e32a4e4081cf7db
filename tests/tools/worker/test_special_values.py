"""NaN, infinity and overflow: where they should be, and nowhere else."""

import pytest
import torch
from expectations.holding import drawn, passes
from torch import Tensor

from warpsmith.tools.worker.expectation import same_values

pytestmark = pytest.mark.usefixtures("one_thread_without_gradients")
SPECIAL = torch.tensor([1.0, torch.nan, torch.inf, -torch.inf, -2.0, 0.0, 3.0, 4.0])


def test_special_values_where_they_should_be_pass():
    assert passes(lambda x: x * 2, lambda x: x + x, [SPECIAL])


WRONG_SPECIALS = [
    (place, value)
    for place in (1, 2, 3)
    for value in (0.0, 1e30, torch.nan, torch.inf, -torch.inf)
    if not same_values(SPECIAL[place], torch.tensor(value))
]


@pytest.mark.parametrize(("place", "value"), WRONG_SPECIALS)
def test_a_special_value_that_is_lost_or_turned_fails(place, value):
    def candidate(x: Tensor) -> Tensor:
        y = x * 2
        y[place] = value
        return y

    assert not passes(lambda x: x * 2, candidate, [SPECIAL])


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_special_value_where_none_should_be_fails(value):
    def candidate(x: Tensor) -> Tensor:
        y = x * 2
        y[4] = value
        return y

    assert not passes(lambda x: x * 2, candidate, [SPECIAL])


def test_nan_that_the_reference_makes_itself_must_be_made_too():
    x = drawn(6, 256)
    assert passes(torch.log, torch.log, [x])
    assert not passes(torch.log, lambda x: torch.log(x).nan_to_num(0.0), [x])
    assert not passes(torch.log, lambda x: torch.log(x.abs()), [x])


def test_where_fp16_overflows_infinity_and_the_largest_number_both_pass_with_the_right_sign():
    x = torch.tensor([300.0, -300.0, 2.0, 100.0], dtype=torch.float16)
    cube = lambda x: x * x.abs()  # noqa: E731 - 90000 with the sign of x
    top = torch.finfo(torch.float16).max
    assert passes(cube, cube, [x])
    assert passes(cube, lambda x: cube(x).clamp(-top, top), [x])
    assert not passes(cube, lambda x: torch.tensor([-torch.inf, -torch.inf, 4.0, 1e4]).half(), [x])
    assert not passes(cube, lambda x: torch.tensor([1.0, -torch.inf, 4.0, 1e4]).half(), [x])


def test_an_overflow_on_the_way_excuses_the_elements_where_the_reference_overflows():
    def reference(x: Tensor) -> Tensor:
        return (x * x) / x

    x = torch.tensor([300.0, 2.0, -400.0, 5.0], dtype=torch.float16)
    assert reference(x).isinf().sum() == 2
    assert passes(reference, reference, [x])
    assert passes(reference, lambda x: x.clone(), [x])
    assert not passes(reference, lambda x: torch.tensor([300.0, 3.0, -400.0, 5.0]).half(), [x])
