"""The yardstick: what must fail, fails at any magnitude; what is honest, passes on every seed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from warpsmith.state.evaluation import Status
from warpsmith.tools.worker import compare, expectation, structure
from warpsmith.tools.worker.expectation import (
    Finding,
    check_layout,
    check_leaf,
    clone_nested,
    expect,
    pool,
    same_values,
)
from warpsmith.tools.worker.session import CandidateFailed

FP32 = compare.POLICY_ROUNDOFF["reference"]
SEEDS = range(200)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


@pytest.fixture(autouse=True, scope="module")
def _one_thread_without_gradients():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def drawn(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def findings(reference: Any, candidate: Callable[..., Any], inputs: list[Any]) -> list[Finding]:
    """One finding an output tensor."""
    model = reference if isinstance(reference, nn.Module) else Function(reference)
    expected = expect(model, inputs, FP32)
    used = clone_nested(inputs)
    _, delivered = structure.flatten(candidate(*used))
    return [check_leaf(got, leaf) for got, leaf in zip(delivered, expected.leaves, strict=True)]


def passes(reference: Any, candidate: Callable[..., Any], inputs: list[Any]) -> bool:
    return all(pool([finding])[0] for finding in findings(reference, candidate, inputs))


def refusals(reference: Any, honest: dict[str, Callable[..., Any]], draw: Callable[[int], list[Any]]) -> list[Any]:
    """Honest variants that are refused, with the seed, over all seeds. The expectation is made once a seed."""
    found = []
    for seed in SEEDS:
        inputs = draw(seed)
        (leaf,) = expect(Function(reference), inputs, FP32).leaves
        found += [(name, seed) for name, variant in honest.items() if not pool([check_leaf(variant(*inputs), leaf)])[0]]
    return found


def passes_pooled(reference: Any, candidate: Callable[..., Any], draws: list[list[Any]]) -> bool:
    """As the judge does with small outputs: one verdict over several repeats."""
    repeats = [findings(reference, candidate, inputs) for inputs in draws]
    return all(pool(list(leaf))[0] for leaf in zip(*repeats, strict=True))


def rounded(tensor: Tensor, bits: int) -> Tensor:
    """float32 with so many explicit mantissa bits, rounded to nearest: 10 is TF32, 7 bf16."""
    drop = 23 - bits
    pattern = tensor.contiguous().view(torch.int32)
    return ((pattern + (1 << (drop - 1))) & ~((1 << drop) - 1)).view(torch.float32)


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


def test_a_scalar_that_leaves_out_one_block_of_many_fails():
    draws = [[drawn(r, 1 << 16)] for r in range(8)]
    assert passes_pooled(torch.sum, lambda x: x.reshape(256, -1).sum(1).sum(), draws)
    assert not passes_pooled(torch.sum, lambda x: x.reshape(256, -1)[1:].sum(1).sum(), draws)


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


def test_a_change_of_an_input_is_expected_where_the_reference_makes_it():
    def reference(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return x + y

    inputs = [drawn(12, 64), drawn(13, 64)]
    expected = expect(Function(reference), inputs, FP32)
    assert expected.mutated == [0]
    assert len(expected.leaves) == 2
    assert torch.equal(expected.leaves[1].oracle, inputs[0].double() * 2)
    assert torch.equal(inputs[0], drawn(12, 64)), "the caller's own tensor is as it was"


def test_empty_outputs_pass_and_say_nothing():
    assert passes(lambda x: x * 2, lambda x: x * 2, [torch.empty(0, 5)])


def test_many_chunks_are_one_comparison(monkeypatch):
    monkeypatch.setattr(compare, "_CHUNK", 1000)
    x, error = drawn(14, 4321), drawn(15, 4321)
    whole = compare.distance(x + error, x.double(), limit=0.1)
    monkeypatch.undo()
    once = compare.distance(x + error, x.double(), limit=0.1)
    assert whole.rms_error == pytest.approx(once.rms_error, rel=1e-12)
    assert (whole.count, whole.worst) == (once.count, once.worst)


@pytest.mark.parametrize(
    ("roundoff", "name"), [(2.0**-40, "fp64"), (1e-7, "fp32"), (5e-4, "tf32"), (5e-3, "bf16"), (0.5, "worse")]
)
def test_an_error_is_named_by_the_precision_it_looks_like(roundoff, name):
    assert compare.error_class(roundoff) == name


def layout(value: Any, **changes: Any) -> dict[str, Any]:
    """What a child says of its output."""
    description, tensors = structure.flatten(value)
    plain = {"type": "Tensor", "device": "cpu"}
    specs = [{"shape": list(t.shape), "dtype": str(t.dtype)[6:], **plain, **changes} for t in tensors]
    return {"structure": description, "specs": specs}


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (layout(torch.zeros(3, 4)), None),
        (layout(torch.zeros(4, 3)), Status.INCORRECT_SHAPE),
        (layout(torch.zeros(3, 4, 1)), Status.INCORRECT_SHAPE),
        (layout(torch.zeros(3, 4).double()), Status.INCORRECT_DTYPE),
        (layout(torch.zeros(3, 4).half()), Status.INCORRECT_DTYPE),
        (layout((torch.zeros(3, 4),)), Status.INCORRECT_STRUCTURE),
        (layout(None), Status.INCORRECT_STRUCTURE),
        (layout(torch.zeros(3, 4), type="LazyTensor"), Status.REWARD_HACK),
        ({"structure": None, "specs": None}, Status.INCORRECT_STRUCTURE),
        ({"structure": {"tensor": 0}, "specs": []}, Status.INCORRECT_STRUCTURE),
        ({"structure": {"tensor": 0}, "specs": [3]}, Status.INCORRECT_STRUCTURE),
        ({"structure": {"tensor": 0}, "specs": [{"type": "Tensor"}]}, Status.INCORRECT_STRUCTURE),
        ({"structure": {"tensor": 0}, "specs": [{"type": "Tensor", "shape": 3}]}, Status.INCORRECT_STRUCTURE),
        ({}, Status.INCORRECT_STRUCTURE),
        ({"structure": {"dict": 5}, "specs": []}, Status.INCORRECT_STRUCTURE),
        ({"structure": {"list": None}, "specs": []}, Status.INCORRECT_STRUCTURE),
        ({"structure": {"tuple": "three"}, "specs": []}, Status.INCORRECT_STRUCTURE),
        ({"structure": {"literal": "x" * 100_000}, "specs": []}, Status.INCORRECT_STRUCTURE),
    ],
)  # fmt: skip
def test_what_a_child_says_of_its_output_is_held_against_what_is_expected(said, status):
    expected = expect(Function(lambda x: x * 2), [drawn(15, 3, 4)], FP32)
    if status is None:
        check_layout(said, expected)
        return
    with pytest.raises(CandidateFailed) as caught:
        check_layout(said, expected)
    assert caught.value.status is status
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("size", [1e80, 1e160, 1e300])
def test_errors_beyond_measure_are_wrong_and_nothing_else(size):
    leaf = expect(Function(lambda x: x.double() * 2), [drawn(15, 3, 4)], FP32).leaves[0]
    actual = torch.full((3, 4), size, dtype=torch.float64)
    assert not pool([check_leaf(actual, leaf)])[0]
    assert compare.distance(actual, leaf.oracle).tail_factor >= 1


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.0),
        torch.randn(7, 5),
        torch.randn(7, 5).t(),
        torch.randn(6, 8)[::2, 1:],
        torch.randn(3, 1).expand(3, 4),
        torch.randn(4, dtype=torch.float64),
        torch.randn(5).bfloat16(),
        torch.empty(0, 3),
    ],
)
def test_inputs_are_nudged_by_one_size_up_or_down_and_stay_as_they_are(monkeypatch, tensor):
    monkeypatch.setattr(expectation, "_CHUNK", 3)
    before = tensor.clone()
    moved = expectation._nudge(tensor, 0.1)
    assert torch.equal(tensor, before)
    assert (moved.shape, moved.dtype) == (tensor.shape, torch.float64)
    steps = (moved / tensor.double() - 1).abs()
    assert torch.allclose(steps, torch.full_like(steps, 0.1 / 3**0.5))
    assert torch.equal(moved, expectation._nudge(tensor, 0.1)), "the same every time"
