"""Lower precision than the reference's fails; honest orders of summation and rounding pass on every seed."""

from collections.abc import Callable

import pytest
import torch
from expectations.holding import FP32, SEEDS, Function, drawn, passes, refusals
from torch import Tensor

from warpsmith.tools.worker.expectation import check_leaf, expect, pool

pytestmark = pytest.mark.usefixtures("one_thread_without_gradients")


def rounded(tensor: Tensor, bits: int) -> Tensor:
    """float32 with so many explicit mantissa bits, rounded to nearest: 10 is TF32, 7 bf16."""
    drop = 23 - bits
    pattern = tensor.contiguous().view(torch.int32)
    return ((pattern + (1 << (drop - 1))) & ~((1 << drop) - 1)).view(torch.float32)


def matmul(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


LOSSY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "tf32": lambda x, w: rounded(x, 10) @ rounded(w, 10),
    "bf16": lambda x, w: rounded(x, 7) @ rounded(w, 7),
    "fp16": lambda x, w: (x.half() @ w.half()).float(),
    "half of k": lambda x, w: x[:, : x.shape[1] // 2] @ w[: x.shape[1] // 2],
    "all but one of k": lambda x, w: x[:, 1:] @ w[1:],
    "bf16 output": lambda x, w: rounded(x @ w, 7),
}


@pytest.mark.parametrize("lossy", LOSSY)
@pytest.mark.parametrize("k", [16, 512])
def test_a_product_in_less_than_fp32_is_no_fp32_product(lossy, k):
    assert not any(passes(matmul, LOSSY[lossy], [drawn(s, 32, k), drawn(s + 1, k, 48)]) for s in range(5))


def test_tf32_on_inputs_in_the_unit_interval_fails_too():
    x, w = torch.rand(32, 512), torch.rand(512, 48)
    assert not passes(matmul, LOSSY["tf32"], [x, w])


def three_products(x: Tensor, w: Tensor) -> Tensor:
    """tf32x3: each operand as a large and a small TF32 part, the smallest product left out."""
    big_x, big_w = rounded(x, 10), rounded(w, 10)
    small_x, small_w = rounded(x - big_x, 10), rounded(w - big_w, 10)
    return small_x @ big_w + big_x @ small_w + big_x @ big_w


HONEST: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "reversed order": lambda x, w: x.flip(1) @ w.flip(0),
    "split in eight": lambda x, w: sum(a @ b for a, b in zip(x.chunk(8, 1), w.chunk(8, 0), strict=True)),
    "one by one": lambda x, w: (x[:, :, None] * w[None]).sum(1),
    "fp64": lambda x, w: (x.double() @ w.double()).float(),
    "tf32x3": three_products,
}


def test_honest_products_pass_on_every_seed():
    assert refusals(matmul, HONEST, lambda s: [drawn(s, 16, 128), drawn(~s, 128, 24)]) == []


def sequential(x: Tensor) -> Tensor:
    return x.cumsum(0)[-1]


SUMS: dict[str, Callable[[Tensor], Tensor]] = {
    "one by one": sequential,
    "blocks": lambda x: x.reshape(32, -1).sum(1).sum(),
    "reversed": lambda x: x.flip(0).sum(),
}


def test_honest_scalars_pass_on_every_seed_when_repeats_are_pooled():
    refused = []
    for seed in SEEDS:
        repeats = [drawn(8 * seed + r, 1024) for r in range(8)]
        leaves = [expect(Function(torch.sum), [x], FP32).leaves[0] for x in repeats]
        for name, total in SUMS.items():
            found = [check_leaf(total(x), leaf) for x, leaf in zip(repeats, leaves, strict=True)]
            if not pool(found)[0]:
                refused.append((name, seed))
    assert refused == []


def exponentials(x: Tensor) -> Tensor:
    return (20 * x).exp()


def test_honest_heavy_tails_pass_on_every_seed():
    """A few elements carry the whole norm, so that whoever is lucky there looks far better."""

    def candidate(x: Tensor) -> Tensor:
        return torch.exp2(x * (20 * 1.4426950408889634))

    assert refusals(exponentials, {"exp2": candidate}, lambda s: [drawn(s, 512)]) == []
    assert not passes(exponentials, lambda x: exponentials(x) * 1.01, [drawn(1, 512)])


def bf16_linear(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(x @ w)


def in_four_parts(x: Tensor, w: Tensor) -> Tensor:
    parts = zip(x.float().chunk(4, 1), w.float().chunk(4, 0), strict=True)
    return torch.relu(sum(a @ b for a, b in parts)).bfloat16()


HONEST_BF16 = {
    "fp32 accumulation": lambda x, w: torch.relu(x.float() @ w.float()).bfloat16(),
    "split": in_four_parts,
    "the reference": bf16_linear,
}


def test_honest_bf16_layers_pass_on_every_seed():
    def draw(seed: int) -> list[Tensor]:
        return [drawn(seed, 16, 64, dtype=torch.bfloat16), drawn(~seed, 64, 24, dtype=torch.bfloat16)]

    assert refusals(bf16_linear, HONEST_BF16, draw) == []


def test_a_bf16_layer_that_loses_a_term_fails():
    inputs = [drawn(1, 16, 128, dtype=torch.bfloat16), drawn(2, 128, 24, dtype=torch.bfloat16)]
    assert not passes(bf16_linear, lambda x, w: torch.relu(x[:, 1:] @ w[1:]), inputs)
    assert not passes(bf16_linear, lambda x, w: x @ w, inputs)


def test_where_the_reference_makes_no_error_a_candidate_may_still_round_once_or_twice():
    x = drawn(3, 4096)
    assert passes(lambda x: x * 0.5, lambda x: x / 2, [x])
    assert passes(lambda x: x * 0.5, lambda x: (x * 3) / 6, [x])
    assert not passes(lambda x: x * 0.5, lambda x: x * 0.50001, [x])
