"""What is wrong fails at any magnitude, however little of it there is."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expectations.holding import FP32, Function, drawn, findings, passes
from torch import Tensor

from warpsmith.tools.worker.expectation import check_leaf, expect, pool

pytestmark = pytest.mark.usefixtures("one_thread_without_gradients")


def passes_pooled(reference: Any, candidate: Callable[..., Any], draws: list[list[Any]]) -> bool:
    """As the judge does with small outputs: one verdict over several repeats."""
    repeats = [findings(reference, candidate, inputs) for inputs in draws]
    return all(pool(list(leaf))[0] for leaf in zip(*repeats, strict=True))


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


WRONG: dict[str, Callable[[Tensor], Tensor]] = {
    "zeros": torch.zeros_like,
    "the mean everywhere": lambda y: y.mean().expand_as(y),
    "doubled": lambda y: 2 * y,
    "off by a thousandth": lambda y: y * 1.001,
    "another row's": lambda y: y.roll(1, 0),
    "the first half, then zeros": lambda y: torch.cat([y[: len(y) // 2], torch.zeros_like(y[len(y) // 2 :])]),
    "unwritten memory": lambda y: torch.full_like(y, torch.nan),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e20])
def test_wrong_outputs_fail_at_any_magnitude(wrong, scale):
    x = drawn(1, 8, 4096)
    assert passes(lambda x: softmax(x) * scale, lambda x: softmax(x) * scale, [x])
    assert not passes(lambda x: softmax(x) * scale, lambda x: WRONG[wrong](softmax(x) * scale), [x])


def test_a_scalar_that_leaves_out_one_block_of_many_fails():
    draws = [[drawn(r, 1 << 16)] for r in range(8)]
    assert passes_pooled(torch.sum, lambda x: x.reshape(256, -1).sum(1).sum(), draws)
    assert not passes_pooled(torch.sum, lambda x: x.reshape(256, -1)[1:].sum(1).sum(), draws)


def test_where_everything_is_zero_only_zero_passes():
    x = -drawn(3, 4096).abs()
    assert passes(torch.relu, torch.relu, [x])
    assert not passes(torch.relu, lambda x: torch.relu(x) + 1e-30, [x])


def test_one_wrong_element_in_ten_million_is_found():
    (leaf,) = expect(Function(torch.relu), [drawn(4, 1000)], FP32).leaves
    leaf.oracle = torch.relu(drawn(4, 10_000_000))
    got = leaf.oracle.clone()
    assert pool([check_leaf(got, leaf)])[0]
    got[7_654_321] += 0.01
    finding = check_leaf(got, leaf)
    assert not pool([finding])[0]
    assert "[7654321] of [10000000]" in finding.worst
    assert "1 elements are far off" in finding.worst


def test_the_last_three_elements_left_unwritten_are_found():
    def candidate(x: Tensor) -> Tensor:
        y = torch.full_like(x, torch.nan)
        y[:-3] = torch.relu(x[:-3])
        return y

    (finding,) = findings(torch.relu, candidate, [drawn(5, 1_000_003)])
    assert not finding.sound
    assert "3 elements are NaN or infinite" in finding.worst
