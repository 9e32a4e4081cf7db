"""The float64 oracle: the reference's mathematics without its rounding, and nothing of the caller's touched."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from warpsmith.tools.worker import oracle


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def wide(function: Any, *arguments: Any) -> Any:
    return oracle.run(Function(function), list(arguments))[0]


def _written_in_parts(target: Tensor, x: Tensor) -> Tensor:
    target[:2], target[2:] = x[2:].flip(0), x[:2].flip(0)
    return target


X = torch.linspace(-3, 3, 24).reshape(4, 6)
D = X.double()


@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (lambda x: x.half().exp().float(), lambda x: x.exp()),
        (lambda x: x.to(torch.bfloat16) * 3, lambda x: x * 3),
        (lambda x: x.type(torch.float16) + 1, lambda x: x + 1),
        (lambda x: torch.sum(x, 1, dtype=torch.float32), lambda x: x.sum(1)),
        (lambda x: torch.softmax(x, -1, dtype=torch.float32), lambda x: torch.softmax(x, -1)),
        (lambda x: x + torch.full((6,), 0.1, dtype=torch.float32), lambda x: x + 0.1),
        (lambda x: x * torch.arange(6, dtype=torch.float32), lambda x: x * torch.arange(6)),
        (lambda x: x @ torch.eye(6), lambda x: x),
        (lambda x: torch.zeros_like(x) + x, lambda x: x),
        (lambda x: torch.empty(4, 6).copy_(x).abs_().sqrt_(), lambda x: x.abs().sqrt()),
        (lambda x: _written_in_parts(torch.zeros(4, 6), x), lambda x: x.flip(0)),
        (lambda x: x.new_ones(4, 6) * x, lambda x: x),
        (lambda x: torch.where(x > 0, x, torch.tensor(0.25)), lambda x: torch.where(x > 0, x, 0.25)),
        (lambda x: x / torch.tensor(3.0), lambda x: x / 3.0),
        (lambda x: torch.cat([x, x.half()], 1), lambda x: torch.cat([x, x], 1)),
    ],
)
def test_casts_factories_and_dtype_arguments_are_widened(function, exact):
    found = wide(function, X)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, exact(D), rtol=1e-15, atol=1e-15)


def test_layers_run_with_their_own_weights_widened():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 3)).bfloat16()
    found, _, _ = oracle.run(model, [X.bfloat16()])
    copy = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 3)).double()
    copy.load_state_dict(model.state_dict())
    torch.testing.assert_close(found, copy(X.bfloat16().double()), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(3, 4, 3), (2, 3, 8, 8)),
        (nn.GroupNorm(2, 4), (2, 4, 5)),
        (nn.BatchNorm1d(4), (6, 4)),
        (nn.MultiheadAttention(8, 2, batch_first=True), (2, 5, 8)),
        (nn.GRU(4, 5), (3, 2, 4)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_library_layers_agree_with_their_own_double_version(layer, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    arguments = [x, x, x] if isinstance(layer, nn.MultiheadAttention) else [x]
    with torch.no_grad():
        found, _, _ = oracle.run(layer, arguments)
        kept = {name: value.clone() for name, value in layer.state_dict().items()}
        exact = layer.double()(*(a.double() for a in arguments))
        layer.float().load_state_dict(kept)
    for got, wanted in zip(_tensors(found), _tensors(exact), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def _tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [v for v in value if isinstance(v, Tensor)]


def test_attention_in_float64_is_exact():
    q, k, v = (torch.randn(2, 3, 7, 4, generator=torch.Generator().manual_seed(s)) for s in range(3))
    found = wide(torch.nn.functional.scaled_dot_product_attention, q, k, v)
    scores = torch.softmax(q.double() @ k.double().mT / 2, -1)
    torch.testing.assert_close(found, scores @ v.double(), rtol=1e-13, atol=1e-13)


def test_a_change_in_place_is_in_the_arguments_that_come_back_and_nowhere_else():
    x, kept = X.clone(), X.clone()
    result, _, after = oracle.run(Function(lambda x: x.mul_(3).add_(1)), [x])
    assert torch.equal(x, kept)
    torch.testing.assert_close(after[0], D * 3 + 1)
    torch.testing.assert_close(result, D * 3 + 1)


def test_integers_and_nested_arguments_are_copied_too():
    index, pair = torch.tensor([2, 0]), {"a": [X.clone()]}

    def reference(index: Tensor, pair: Any, scale: float) -> Tensor:
        index.add_(1)
        pair["a"][0].zero_()
        return index * scale

    oracle.run(Function(reference), [index, pair, 2.0])
    assert index.tolist() == [2, 0]
    assert torch.equal(pair["a"][0], X)


def test_the_models_weights_and_buffers_stay_as_they_are():
    model = nn.BatchNorm1d(6)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    oracle.run(model, [X])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.weight.dtype == torch.float32


@pytest.mark.parametrize(
    "function",
    [lambda x: x.argmax(1), lambda x: x.argmin(1), lambda x: x.max(1)[1], lambda x: x.min(dim=1, keepdim=True)[1]],
)
def test_an_index_output_knows_the_values_it_points_at(function):
    index, chosen, _ = oracle.run(Function(function), [X.sin()])
    origin = chosen[index.untyped_storage().data_ptr()]
    best = X.double().sin()
    wanted = best.gather(1, index.reshape(4, 1))
    torch.testing.assert_close(origin.at(index).reshape(4, 1), wanted, rtol=0, atol=1e-6)
    assert origin.at(torch.full_like(index, 6)).isnan().all()
    assert origin.at(torch.full_like(index, -1)).isnan().all()


def test_an_index_into_the_flattened_tensor_is_known_as_one():
    index, chosen, _ = oracle.run(Function(torch.argmax), [X])
    origin = chosen[index.untyped_storage().data_ptr()]
    assert float(origin.at(index)) == float(D.max())
    assert origin.at(torch.tensor(24)).isnan()


def test_scalars_none_and_flags_pass_through():
    found = wide(lambda x, flag, none: (x if flag else -x, none, 3), X, False, None)
    assert torch.equal(found[0], -D)
    assert found[1:] == (None, 3)
