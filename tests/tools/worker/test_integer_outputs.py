"""Integer outputs: indices are judged by the value there, counts and masks exactly, rounded ones by a step."""

import pytest
import torch
from expectations.holding import drawn, passes, refusals
from torch import Tensor

pytestmark = pytest.mark.usefixtures("one_thread_without_gradients")


def test_equal_maxima_make_several_indices_right():
    x = drawn(7, 64, 128)
    x[:, 5] = x[:, 77] = 9.0
    last = lambda x: x.shape[1] - 1 - x.flip(1).argmax(1)  # noqa: E731
    assert (x.argmax(1) != last(x)).all()
    assert passes(lambda x: x.argmax(1), last, [x])
    assert passes(lambda x: x.max(1), lambda x: (x.amax(1), last(x)), [x])


@pytest.mark.parametrize("index", [lambda i: i * 0, lambda i: (i + 1) % 128, lambda i: i + 128, lambda i: i - 128])
def test_an_index_of_a_lesser_value_or_out_of_range_fails(index):
    assert not passes(lambda x: x.argmax(1), lambda x: index(x.argmax(1)), [drawn(8, 64, 128)])


def test_an_argmax_of_low_precision_scores_is_judged_at_their_precision():
    """Products in bf16 tie or swap where float64 does not, for the reference as for any honest kernel."""

    def reference(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).argmax(1)

    def candidate(x: Tensor, w: Tensor) -> Tensor:
        return (x.float() @ w.float()).argmax(1)

    for seed in range(20):
        inputs = [drawn(seed, 256, 64, dtype=torch.bfloat16), drawn(~seed, 64, 512, dtype=torch.bfloat16)]
        assert passes(reference, reference, inputs)
        assert passes(reference, candidate, inputs)
        assert not passes(reference, lambda x, w: (x[:, 8:].float() @ w[8:].float()).argmax(1), inputs)


def test_an_index_used_on_the_way_says_nothing_about_another_integer_output():
    """Memory of the first may be reused by the second."""

    def reference(x: Tensor) -> Tensor:
        top = x.argmax(1)
        picked = x.gather(1, top[:, None])
        del top
        return (x > picked * 0.5).sum(1)

    x = drawn(9, 64, 128)
    assert passes(reference, reference, [x])
    assert not passes(reference, lambda x: reference(x) * 0 + 3, [x])


def test_counts_and_masks_are_exact():
    x = drawn(10, 64, 128)
    assert passes(lambda x: x > 0, lambda x: x > 0, [x])
    assert not passes(lambda x: x > 0, lambda x: x > 0.01, [x])
    assert not passes(lambda x: (x > 0).sum(1), lambda x: (x > 0).sum(1) + 1, [x])

    def one_off(x: Tensor) -> Tensor:
        found = (x > 0).sum(1)
        found[3] += 1
        return found

    assert not passes(lambda x: (x > 0).sum(1), one_off, [x])


def quantise(x: Tensor) -> Tensor:
    return (x / 0.0137).round().clamp(-127, 127).to(torch.int8)


def test_integers_made_by_rounding_may_differ_by_a_step_where_a_tie_is_near():
    honest = {"product": lambda x: (x * (1 / 0.0137)).round().clamp(-127, 127).to(torch.int8), "itself": quantise}
    assert refusals(quantise, honest, lambda s: [drawn(s, 1 << 13)]) == []


def test_integers_made_by_rounding_fail_beyond_a_step_or_too_often():
    x = drawn(11, 1 << 14)

    def two_steps(x: Tensor) -> Tensor:
        y = quantise(x)
        y[0] += 2
        return y

    assert not passes(quantise, two_steps, [x])
    assert not passes(quantise, lambda x: (x / 0.0137).floor().clamp(-127, 127).to(torch.int8), [x])
    assert not passes(quantise, lambda x: (x / 0.0137 + 0.01).round().clamp(-127, 127).to(torch.int8), [x])
