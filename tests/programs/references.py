"""Small reference modules of many structures, to test lowering and planning on: `CASES[name]()` is (module, inputs)."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Case = Callable[[], tuple[nn.Module, list[Any]]]
CASES: dict[str, Case] = {}


class Function(nn.Module):
    """A function as a module, with parameters by name."""

    def __init__(self, function: Callable[..., Any], **parameters: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in parameters.items():
            if tensor.dtype.is_floating_point:
                self.register_parameter(name, nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def bf16(*shape: int) -> torch.Tensor:
    return draw(*shape, dtype=torch.bfloat16)


def case(name: str, function: Callable[..., Any], inputs: Callable[[], list[Any]], **parameters: Any) -> None:
    """Registers a function of (module, *inputs); parameters are shapes or functions that make a tensor."""

    def build() -> tuple[nn.Module, list[Any]]:
        torch.manual_seed(0)
        made = {k: p() if callable(p) else draw(*p) for k, p in parameters.items()}
        return Function(function, **made).eval(), inputs()

    CASES[name] = build


def layer(name: str, make: Callable[[], nn.Module], inputs: Callable[[], list[Any]], training: bool = False) -> None:
    """Registers an ordinary module."""

    def build() -> tuple[nn.Module, list[Any]]:
        torch.manual_seed(0)
        module = make().train(training)
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.dtype.is_floating_point:
                tensor.data = torch.rand_like(tensor) + 0.5 if tensor.dim() < 2 else torch.randn_like(tensor) / 4
        return module, inputs()

    CASES[name] = build


# Pointwise, with broadcasting, types and layouts.
case("relu_bias", lambda self, x: torch.relu(x + self.bias), lambda: [draw(5, 7)], bias=(7,))
case("bias_along_rows", lambda self, x: torch.tanh(x) * self.scale[:, None], lambda: [draw(5, 7)], scale=(5,))
case("channel_bias", lambda self, x: F.silu(x + self.bias), lambda: [draw(2, 5, 3, 7)], bias=(5, 1, 1))
case("outer_sum", lambda self, x, y: x[:, None] + y[None, :].exp(), lambda: [draw(6), draw(9)])
case("scalar_chain", lambda self, x: ((x * 2 + 1) / 3 - 4).clamp(-1, 1), lambda: [draw(31)])
case("transposed", lambda self, x, y: x.t() + y, lambda: [draw(5, 7), draw(7, 5)])
case("permuted_output", lambda self, x: torch.relu(x).permute(2, 0, 1), lambda: [draw(3, 4, 5)])
case("permuted_copy", lambda self, x: (x + 1).permute(0, 2, 1).contiguous().view(2, -1), lambda: [draw(2, 3, 5)])
case("view_only", lambda self, x: x.permute(1, 0), lambda: [draw(3, 4)])
case("clone_only", lambda self, x: x.transpose(0, 1).reshape(-1), lambda: [draw(3, 4)])
case("split_gate", lambda self, x: (lambda a, b: a * torch.sigmoid(b))(*x.chunk(2, -1)), lambda: [draw(3, 4, 10)])
case("gate_of_computed", lambda self, x: (lambda y: y[:, :4] * y[:, 4:])(torch.tanh(x)), lambda: [draw(5, 8)])
case("strided_slice", lambda self, x: x[:, 1::2] - x[:, ::2], lambda: [draw(5, 8)])
case("select", lambda self, x: x[:, 2] * x[:, -1], lambda: [draw(5, 8, 3)])
case("halves", lambda self, x, y: (x * y + x).sigmoid(), lambda: [bf16(6, 9), bf16(6, 9)])
case("half_and_float", lambda self, x, y: x.float() * y, lambda: [bf16(6, 9), draw(6, 9)])
case("float16", lambda self, x: F.gelu(x), lambda: [draw(8, 9, dtype=torch.float16)])
case("float64", lambda self, x, y: x / (y.abs() + 1), lambda: [draw(8, 9, dtype=torch.float64), draw(9)])
case("to_integer", lambda self, x: (x * 10).to(torch.int32) // 3, lambda: [draw(8, 9)])
case("integers", lambda self, x, y: (x * 3 + y) % 5, lambda: [torch.arange(12).view(3, 4), torch.arange(4) - 2])
case("integer_to_float", lambda self, x: x / 4 + 0.5, lambda: [torch.arange(12).view(3, 4)])
case("mask", lambda self, x, m: x.masked_fill(m, float("-inf")), lambda: [draw(4, 6), draw(4, 6) > 0])
case("logic", lambda self, x, y: (x > 0) & (y <= x) | ~(y > 1), lambda: [draw(4, 6), draw(4, 6)])
case("bool_arithmetic", lambda self, x: (x > 0) * x + (x < -1), lambda: [draw(4, 6)])
case("causal", lambda self, x: x * (torch.arange(6)[:, None] >= torch.arange(6)), lambda: [draw(3, 6, 6)])
case("linspace_index", lambda self, x: x + torch.arange(2, 14, 2, dtype=x.dtype), lambda: [draw(3, 6)])
case("constant", lambda self, x: x * torch.tensor([1.0, 2.0, 3.0]) + torch.tensor(0.5), lambda: [draw(4, 3)])
case("two_outputs", lambda self, x, y: (x + y, (x + y).relu()), lambda: [draw(4, 6), draw(4, 6)])
case("structure", lambda self, x: {"a": [x + 1, None], "b": (3, x * 2, True)}, lambda: [draw(4, 6)])
case("siblings", lambda self, x: (x.relu(), x.sigmoid(), x.tanh()), lambda: [draw(4, 6)])
case("full_output", lambda self, x: torch.zeros_like(x) + 2, lambda: [draw(4, 6)])
case("expanded_input", lambda self, x, y: x * y, lambda: [draw(4, 1).expand(4, 6), draw(4, 6)])
case("strided_input", lambda self, x: x.exp(), lambda: [draw(6, 8).t()[:, ::2]])
case("scalar_input", lambda self, x, s: x * s, lambda: [draw(4, 6), 0.25])
case("zero_dim", lambda self, x, s: x * s + s.exp(), lambda: [draw(4, 6), draw()])
case("powers", lambda self, x: x**2 + x**3 - x.abs() ** 0.5 + 2.0**x, lambda: [draw(4, 6)])
case("repeat", lambda self, x: x.repeat(2, 3) + 1, lambda: [draw(4, 5)])
case("where_literal", lambda self, x: torch.where(x > 0, x, 0.1 * x), lambda: [draw(4, 6)])

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "elu": F.elu,
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "softplus": lambda x: F.softplus(x, 2.0),
    "mish": F.mish,
    "hardtanh": F.hardtanh,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "relu6": F.relu6,
    "softsign": F.softsign,
    "logsigmoid": F.logsigmoid,
    "tanhshrink": F.tanhshrink,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "log1p": lambda x: torch.log1p(x.abs()) + torch.log2(x.abs() + 1) + torch.log10(x.abs() + 1),
    "expm1": lambda x: torch.expm1(x) + torch.exp2(x) + torch.erf(x),
    "trigonometry": lambda x: x.sin() + x.cos() + x.sinh() - x.cosh(),
    "rounding": lambda x: (x * 3).floor() + (x * 5).ceil() - (x * 7).round() + (x * 2).trunc() + x.sign(),
    "nan_handling": lambda x: torch.where(torch.isnan(x / 0 * 0), 1.0, x),
    "fmod": lambda x: torch.fmod(x, 0.7) + torch.remainder(x, 0.3),
}
for _name, _activation in ACTIVATIONS.items():
    case(_name, lambda self, x, f=_activation: f(x), lambda: [draw(5, 13) * 3])

# Reductions and normalisations.
case("softmax", lambda self, x: x.softmax(-1), lambda: [draw(5, 13)])
case("softmax_middle", lambda self, x: x.softmax(1), lambda: [draw(3, 7, 4)])
case("scaled_masked_softmax", lambda self, x, m: (x * 0.3 + m).softmax(-1), lambda: [draw(2, 3, 5, 6), draw(5, 6)])
case("log_softmax_bf16", lambda self, x: x.log_softmax(-1), lambda: [bf16(5, 13)])
case("logsumexp", lambda self, x: x.logsumexp(1), lambda: [draw(5, 13, 2)])
case("logsumexp_infinite", lambda self, x: x.logsumexp(1), lambda: [torch.full((3, 4), float("-inf"))])
case("sum_all", lambda self, x: x.sum(), lambda: [draw(5, 13)])
case("sum_first", lambda self, x: x.sum(0), lambda: [draw(5, 13)])
case("sum_outer_and_inner", lambda self, x: x.sum((0, 2, 3), keepdim=True), lambda: [draw(2, 5, 3, 4)])
case("mean_square", lambda self, x, y: ((x - y) ** 2).mean(), lambda: [draw(5, 13), draw(5, 13)])
case("mean_integers", lambda self, x: x.float().mean(-1), lambda: [torch.arange(12).view(3, 4)])
case("count_positive", lambda self, x: (x > 0).sum(-1), lambda: [draw(5, 13)])
case("any_all", lambda self, x: ((x > 2).any(-1), (x > -2).all(0)), lambda: [draw(5, 13)])
case("product", lambda self, x: x.prod(-1), lambda: [draw(5, 6)])
case("max_and_index", lambda self, x: x.max(dim=1), lambda: [draw(5, 13)])
case("argmin_all", lambda self, x: x.argmin(), lambda: [draw(5, 13)])
case("argmax_middle", lambda self, x: x.argmax(1, keepdim=True), lambda: [draw(3, 5, 4)])
case("amax_amin", lambda self, x: x.amax((1, 2)) - x.amin((1, 2)), lambda: [draw(3, 5, 4)])
case("variance", lambda self, x: x.var(-1), lambda: [draw(5, 13) + 1000])
case("std_mean", lambda self, x: torch.std_mean(x, (0, 2), correction=0), lambda: [draw(5, 6, 7)])
case("norm", lambda self, x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6), lambda: [draw(5, 13)])
case("norms", lambda self, x: x.norm(1) + x.norm(3) + x.norm(float("inf")), lambda: [draw(5, 13)])
case("center", lambda self, x: x - x.mean((0, 1)), lambda: [draw(3, 5, 4)])
case("mean_times_other", lambda self, x, y: x.mean(-1, keepdim=True) * y, lambda: [draw(5, 6), draw(5, 6)])
case("mean_times_wider", lambda self, x, y: x.mean(-1, keepdim=True) * y, lambda: [draw(5, 6), draw(5, 9)])
case("square_matrix", lambda self, x, y: x.sum(0, keepdim=True) * y, lambda: [draw(6, 6), draw(6, 6)])
case("two_reductions", lambda self, x: x.softmax(-1).sum(0), lambda: [draw(5, 13)])
case("rows_and_columns", lambda self, x: (torch.relu(x).sum(0), torch.relu(x).sum(1)), lambda: [draw(5, 13)])
case("residual_and_norm", lambda self, x, y: (x + y, F.layer_norm(x + y, (8,))), lambda: [draw(5, 8), draw(5, 8)])
case(
    "rms_over_channels", lambda self, x: x / (x.pow(2).mean(1, keepdim=True) + 1e-5).sqrt(), lambda: [draw(2, 6, 3, 5)]
)
case("cross_entropy", lambda self, x, t: F.cross_entropy(x, t), lambda: [draw(6, 9), torch.arange(6) % 9])
case("reduce_unit", lambda self, x: x.sum(1) + x.mean(1) + x.softmax(1)[:, 0], lambda: [draw(6, 1, 3)])
case("nested_means", lambda self, x: x.mean(-1).mean(), lambda: [draw(6, 5)])
case(
    "kl", lambda self, p, q: (p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))).sum(-1), lambda: [draw(4, 9)] * 2
)
case("cosine", lambda self, x, y: F.cosine_similarity(x, y, dim=1), lambda: [draw(4, 9), draw(4, 9)])
layer("layer_norm", lambda: nn.LayerNorm(11), lambda: [draw(3, 5, 11)])
layer("layer_norm_2d", lambda: nn.LayerNorm((4, 6)), lambda: [draw(3, 4, 6)])
layer("layer_norm_bf16", lambda: nn.LayerNorm(11).bfloat16(), lambda: [bf16(7, 11)])
layer("group_norm", lambda: nn.GroupNorm(2, 6), lambda: [draw(3, 6, 4, 5)])
layer("group_norm_then_silu", lambda: nn.Sequential(nn.GroupNorm(3, 6), nn.SiLU()), lambda: [draw(3, 6, 4)])
layer("instance_norm", lambda: nn.InstanceNorm2d(4), lambda: [draw(3, 4, 5, 6)])
layer("batch_norm", lambda: nn.BatchNorm2d(4), lambda: [draw(3, 4, 5, 6)])
layer("batch_norm_in_training", lambda: nn.BatchNorm2d(4), lambda: [draw(3, 4, 5, 6)], training=True)
layer(
    "batch_norm_after_a_product",
    lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU()),
    lambda: [draw(6, 4)],
    training=True,
)
layer("rms_norm", lambda: nn.RMSNorm(12), lambda: [draw(5, 12)])

# Matrix products.
layer("linear", lambda: nn.Linear(7, 9), lambda: [draw(5, 7)])
layer("linear_3d", lambda: nn.Sequential(nn.Linear(7, 9), nn.ReLU()), lambda: [draw(2, 5, 7)])
layer("linear_permuted", lambda: nn.Linear(5, 9, bias=False), lambda: [draw(2, 5, 7).transpose(1, 2)])
layer("two_layers", lambda: nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Linear(9, 3)), lambda: [draw(5, 7)])
layer("linear_norm", lambda: nn.Sequential(nn.Linear(7, 8), nn.GroupNorm(2, 8), nn.Hardtanh()), lambda: [draw(5, 7)])
case("matmul", lambda self, x, y: x @ y, lambda: [draw(5, 7), draw(7, 3)])
case("matmul_transposed", lambda self, x, y: x.t() @ y.t() * 2, lambda: [draw(7, 5), draw(3, 7)])
case("bmm_residual", lambda self, x, y, z: torch.bmm(x, y) + z, lambda: [draw(2, 5, 7), draw(2, 7, 3), draw(2, 5, 3)])
case("broadcast_batch", lambda self, x, y: torch.matmul(x, y), lambda: [draw(4, 2, 5, 7), draw(2, 7, 3)])
case("matrix_by_batch", lambda self, x, y: torch.matmul(x, y).relu(), lambda: [draw(5, 7), draw(2, 7, 3)])
case("matvec", lambda self, x, y: torch.mv(x, y) + 1, lambda: [draw(5, 7), draw(7)])
case("dot", lambda self, x, y: torch.dot(x, y), lambda: [draw(7), draw(7)])
case("addmm", lambda self, b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2), lambda: [draw(3), draw(5, 7), draw(7, 3)])
case(
    "einsum",
    lambda self, x, y: torch.einsum("bhqd,bhkd->bhqk", x, y) * 0.5,
    lambda: [draw(2, 3, 5, 4), draw(2, 3, 6, 4)],
)
case("einsum_permuted", lambda self, x, y: torch.einsum("bij,jk->bki", x, y), lambda: [draw(2, 5, 4), draw(4, 6)])

case(
    "einsum_around",
    lambda self, x, y: torch.einsum("nchw,dc->ndhw", x, y).clamp(0),
    lambda: [draw(2, 5, 4, 6), draw(3, 5)],
)
case("einsum_behind", lambda self, x, y: torch.einsum("bhwc,hk->bkwc", x, y), lambda: [draw(2, 5, 4, 6), draw(5, 3)])
case("einsum_heads", lambda self, x, y: torch.einsum("btd,dhe->bthe", x, y), lambda: [draw(2, 5, 4), draw(4, 3, 6)])
case("einsum_both", lambda self, x, y: torch.einsum("ckb,kad->abcd", x, y), lambda: [draw(2, 5, 4), draw(5, 3, 6)])


def gated(self: Any, x: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, self.gate)) * F.linear(x, self.up)


def gated_by_the_first(self: Any, x: torch.Tensor) -> torch.Tensor:
    first = x @ self.gate
    return first * (x @ first.t())


gates = {"gate": lambda: bf16(24, 16) / 4, "up": lambda: bf16(24, 16) / 4}
case("gated_halves", gated, lambda: [bf16(3, 20, 16)], **gates)
case(
    "gated_packed",
    lambda self, x: torch.mul(*F.linear(x, self.w).chunk(2, -1)),
    lambda: [bf16(20, 16)],
    w=lambda: bf16(48, 16) / 4,
)
case("gated_float32", gated, lambda: [draw(20, 16)], gate=(24, 16), up=(24, 16))
case("gated_thin", gated, lambda: [bf16(4, 16)], **gates)
case("gated_by_the_first", gated_by_the_first, lambda: [bf16(24, 24) / 4], gate=lambda: bf16(24, 24) / 4)
case("bf16_linear_silu", lambda self, x: F.silu(F.linear(x, self.w)), lambda: [bf16(5, 8)], w=lambda: bf16(6, 8))
case("relu_before", lambda self, x, y: torch.relu(x) @ y, lambda: [draw(5, 7), draw(7, 3)])
case("row_scaled", lambda self, x, y, s: (x @ y) * s[:, None] + 1, lambda: [draw(5, 7), draw(7, 3), draw(5)])
case(
    "batch_scaled",
    lambda self, x, y, s: F.linear(x, y) * s[:, None, None],
    lambda: [draw(2, 5, 7), draw(3, 7), draw(2)],
)
case(
    "heads", lambda self, x, w: F.linear(x, w).view(2, 5, 2, 4).transpose(1, 2) * 2, lambda: [draw(2, 5, 7), draw(8, 7)]
)
case("gated", lambda self, x, w, v: F.silu(x @ w) * (x @ v), lambda: [draw(5, 7), draw(7, 4), draw(7, 4)])
case("product_and_rowsum", lambda self, x, y: (x @ y).softmax(-1), lambda: [draw(5, 7), draw(7, 3)])
case("half_of_a_total", lambda self, x, y: x.cumsum(1)[:, ::2] + y, lambda: [draw(2, 8), draw(9, 2, 4)])
case("sinh_far_out", lambda self, x: x.sinh(), lambda: [torch.tensor([-5.0, -12.0, -20.0, 1e-5, 20.0, 95.0])])
case(
    "bytes_of_two_kinds",
    lambda self, a, b: a > b,
    lambda: [torch.tensor([200, 3], dtype=torch.uint8), torch.tensor([100, -3], dtype=torch.int8)],
)
case(
    "name_of_a_node",
    lambda self, x, y: torch.einsum("...ab,...cb->...ca", *[torch.einsum("abc,cz->zab", x, y)] * 2),
    lambda: [draw(1, 3, 3), draw(3, 9)],
)
case("empty_convolution", lambda self, x: F.conv2d(x, self.w, padding=1), lambda: [draw(0, 2, 5, 5)], w=(4, 2, 3, 3))
case("no_freedom_left", lambda self, x: x.var(1, correction=3), lambda: [draw(3, 2)])
case("one_vector_twice", lambda self, x, y, v: (x @ v, y @ v), lambda: [draw(5, 7), draw(6, 7), draw(7)])
case("one_output", lambda self, x: F.linear(x, self.w), lambda: [draw(5, 7)], w=(1, 7))
case("count_of_first_places", lambda self, x: x.argmax(-1).sum(1), lambda: [draw(2, 13, 1)])
case("pairwise", lambda self, x, y: (x * x).sum(1)[:, None] - 2 * (x @ y.t()), lambda: [draw(5, 7), draw(6, 7)])
case(
    "packed_heads", lambda self, x: (lambda p: p[:, :, 0] @ p[:, :, 1].mT)(x.view(2, 5, 3, 8)), lambda: [draw(2, 5, 24)]
)

layer(
    "convolution", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.GroupNorm(2, 4)), lambda: [draw(2, 3, 8, 8)]
)
case("cumulative", lambda self, x: torch.cumsum(x * 2, -1).relu(), lambda: [draw(5, 13)])
case("concatenated", lambda self, x, y: torch.cat([x.relu(), y + 1], 1) * 3, lambda: [draw(5, 3), draw(5, 4)])
case("embedding", lambda self, i: F.embedding(i, self.table) * 2, lambda: [torch.arange(6).view(2, 3)], table=(7, 5))
layer("pooling", lambda: nn.Sequential(nn.MaxPool2d(2), nn.Sigmoid()), lambda: [draw(2, 3, 8, 8)])

# Partly covered.
case(
    "resized_by_a_factor_unseen",
    lambda self, x: F.interpolate(x.view(-1, 1, 5, 5), scale_factor=1.1, mode="bilinear"),
    lambda: [draw(2, 25)],
)
layer("transposed_convolution", lambda: nn.ConvTranspose2d(3, 4, 3, stride=2), lambda: [draw(2, 3, 5, 6)])
case("sorted", lambda self, x: (lambda v, i: v * 2 + i)(*torch.sort(x.exp(), -1)), lambda: [draw(5, 13)])
layer("recurrent", lambda: nn.GRU(4, 5, batch_first=True), lambda: [draw(2, 6, 4)])
case(
    "unsplittable",
    lambda self, x: (x[:, 1:].reshape(-1) * 2).view(3, -1)[:, 1:5].reshape(2, 6) + 1,
    lambda: [draw(4, 7)],
)

# In place.
case("in_place_intermediate", lambda self, x: (x + 1).mul_(2).relu_(), lambda: [draw(5, 7)])
case("in_place_input", lambda self, x, y: x.mul_(0.9).add_(y, alpha=0.1), lambda: [draw(5, 7), draw(5, 7)])
case("in_place_and_result", lambda self, x: (x.add_(1), x.sum(-1)), lambda: [draw(5, 7)])
case("in_place_transposed", lambda self, x: x.t().mul_(torch.arange(5)) * 2, lambda: [draw(5, 7)])
case("in_place_read_before", lambda self, x: (x.flip(0) + 1, x.mul_(2) + 1), lambda: [draw(5, 7)])
case("in_place_read_after", lambda self, x: (x.flip(0) + 1, x.mul_(2) + 1)[::-1], lambda: [draw(5, 7)])
case(
    "in_place_moved_first",
    lambda self, new, last: (last.copy_(new), new.add_(1))[1] * 2,
    lambda: [draw(4, 6), draw(4, 6)],
)
case("in_place_old_value", lambda self, x: (x.clone(), x.mul_(2))[0], lambda: [draw(5, 7)])
case("in_place_softmax", lambda self, x: x.copy_(torch.softmax(x, -1)), lambda: [draw(5, 7)])
case("in_place_running", lambda self, x, y: x.mul_(0.9).add_(y.mean(-1)), lambda: [draw(5), draw(5, 7)])
case("in_place_buffer", lambda self, x: x * self.scale.add_(1), lambda: [draw(5, 7)], scale=lambda: torch.arange(7))
