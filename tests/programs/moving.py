"""References whose results lie elsewhere than their operands, or are read through windows; `CASES` has them too."""

import functools
from typing import Any

import torch
import torch.nn.functional as F
from programs.references import CASES, case, draw, layer
from torch import nn

from warpsmith.state.program import ForwardPlan
from warpsmith.sub_agents.planner import forward_plan
from warpsmith.tools.worker.lowering import lower

_KNOWN = set(CASES)


def half(*shape: int) -> torch.Tensor:
    return draw(*shape, dtype=torch.float16)


def flipped_often(x: torch.Tensor) -> torch.Tensor:
    for _ in range(12):
        x = x + x.flip(1)
    return x


def haar(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        even, odd = x[:, ::2], x[:, 1::2]
        x = torch.cat([(even + odd) * 0.5, (even - odd) * 0.5], 1)
    return x


def _steep() -> torch.Tensor:
    x = torch.zeros(1, 2, 4, 4)
    x[:, 0, :, 2:] = -torch.inf
    x[:, 1, ::2] = 3e38
    x[:, 1, 1::2] = -3e38
    return x


class Cut(nn.Module):
    """A module's result without its end, as causal convolutions are written."""

    def __init__(self, inner: nn.Module, end: int) -> None:
        super().__init__()
        self.inner, self.end = inner, end

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x)[..., : self.end]
        return result


def pooled(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x, 3, 1, 1)


# Moved.
case("flipped", lambda self, x: x.flip(1) * 2 + x, lambda: [draw(4, 7)])
case("flipped_twice", lambda self, x: (x.t() + 1).flip(0, 1), lambda: [draw(4, 7)])
case("rolled", lambda self, x: torch.roll(x, 3, 1), lambda: [draw(4, 7)])
case("joined", lambda self, x, y: torch.cat([x.relu(), y + 1, x], 1) * 3, lambda: [draw(5, 3), draw(5, 4)])
case("joined_first", lambda self, x, y: torch.cat([x, y.t()], 0), lambda: [draw(3, 5), draw(5, 4)])
case("joined_types", lambda self, x, y: torch.cat([x, y], 1), lambda: [half(5, 3), draw(5, 4)])
case("joined_sum", lambda self, x, y: torch.cat([x, y], 1).sum(1), lambda: [draw(5, 3), draw(5, 4)])
case("stacked", lambda self, x, y: torch.stack([x + y, x - y], -1).flatten(-2), lambda: [draw(5, 6), draw(5, 6)])
case("padded", lambda self, x: F.pad(x.exp(), (1, 2, 0, 3), value=-1.0), lambda: [draw(2, 3, 4)])
case("cropped", lambda self, x: F.pad(x, (-1, 2, 0, -1)), lambda: [draw(2, 3, 4)])
case("reflected", lambda self, x: F.pad(x, (2, 1), mode="reflect"), lambda: [draw(2, 3, 6)])
case("padded_halves", lambda self, x: F.pad(x, (1, 1)), lambda: [half(3, 8)])
case("widened", lambda self, x: F.interpolate(x, scale_factor=2, mode="nearest") + 1, lambda: [draw(2, 3, 4, 5)])
case("shifted", lambda self, x: F.pad(x, (1, -1)) - x, lambda: [draw(3, 8)])

case("flipped_beside_product", lambda self, x, y, b: x @ y + b.flip(0), lambda: [draw(5, 7), draw(7, 4), draw(4)])
case("flipped_scalar", lambda self, x: x.flip(0) + 1, lambda: [draw()])

# Picked.
case("embedded", lambda self, i: F.embedding(i, self.table).relu(), lambda: [torch.arange(6).view(2, 3)], table=(7, 5))
case(
    "embedded_norm",
    lambda self, i: F.layer_norm(F.embedding(i, self.table), (8,)),
    lambda: [torch.arange(6).view(2, 3)],
    table=(7, 8),
)
case("chosen", lambda self, x, i: x.index_select(1, i) * 2, lambda: [draw(3, 5), torch.tensor([4, 0, 2])])
case("indexed", lambda self, x, i: x[i], lambda: [draw(5, 3, 2), torch.tensor([[4, -1], [0, 2]])])
case(
    "indexed_apart",
    lambda self, x, i, j: x[i, :, j] + 1,
    lambda: [draw(5, 3, 4), torch.tensor([4, 0]), torch.tensor([1, -2])],
)
case(
    "indexed_side_by_side",
    lambda self, x, i, j: x[:, i, j],
    lambda: [draw(5, 3, 4), torch.tensor([[2], [0]]), torch.tensor([1, 3])],
)
case("gathered", lambda self, x, i: x.gather(1, i), lambda: [draw(3, 5), torch.tensor([[4, 0], [1, 1], [2, 3]])])
case("gathered_at_best", lambda self, x, y: y.gather(1, x.argmax(1, keepdim=True)), lambda: [draw(3, 5), draw(3, 5)])
case("on_the_diagonal", lambda self, x: x.diagonal(1, -2, -1) * 2, lambda: [draw(2, 4, 5)])
case("trace", lambda self, x: torch.trace(x), lambda: [draw(5, 5)])

# Windows.
case("largest_3x3", lambda self, x: F.max_pool2d(x, 3, 2, 1), lambda: [draw(2, 3, 7, 8)])
case("largest_of_relu", lambda self, x: F.max_pool2d(x.relu(), 2).sigmoid(), lambda: [draw(2, 3, 6, 8)])
case("largest_wide", lambda self, x: F.max_pool2d(x, (4, 5), (2, 1), (1, 2), 1), lambda: [draw(2, 3, 9, 9)])
case("largest_ceiled", lambda self, x: F.max_pool1d(x, 2, 2, ceil_mode=True), lambda: [draw(2, 3, 7)])
case("largest_3d", lambda self, x: F.max_pool3d(x, 2), lambda: [draw(1, 2, 4, 6, 4)])
case("largest_dilated", lambda self, x: F.max_pool2d(x, 2, 1, 1, 2), lambda: [draw(2, 3, 6, 6)])
case(
    "largest_of_scaled",
    lambda self, x: F.max_pool2d(x * self.scale[:, None, None] + self.row, 3, 2, 1),
    lambda: [draw(2, 3, 7, 8)],
    scale=(3,),
    row=(8,),
)
case("largest_of_one_row", lambda self, x: F.max_pool2d(x * self.row, 3, 1, 1), lambda: [draw(2, 3, 1, 8)], row=(8,))
case(
    "padded_scaled",
    lambda self, x: F.pad(x * self.row + self.column, (1, 2, 0, 3)),
    lambda: [draw(2, 4)],
    row=(4,),
    column=(2, 1),
)
case(
    "joined_scaled",
    lambda self, x, y: torch.cat([x * self.row, y * self.row[:2]], 1),
    lambda: [draw(3, 4), draw(3, 2)],
    row=(4,),
)
case("averaged", lambda self, x: F.avg_pool2d(x, 3, 2, 1), lambda: [draw(2, 3, 7, 8)])
case("averaged_inside", lambda self, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), lambda: [draw(2, 3, 7, 8)])
case("averaged_ceiled", lambda self, x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), lambda: [draw(2, 3, 6, 7)])
case("averaged_behind", lambda self, x: F.avg_pool1d(x, 2, 2, 1, count_include_pad=False), lambda: [draw(1, 1, 5)])
case("averaged_wide", lambda self, x: F.avg_pool1d(x, 12, 3), lambda: [draw(2, 3, 30)])
case("averaged_blocks", lambda self, x: F.adaptive_avg_pool2d(x, (2, 3)), lambda: [draw(2, 3, 4, 6)])
case("largest_thrice", lambda self, x: pooled(pooled(pooled(x))), lambda: [draw(2, 2, 8, 8)])
case("largest_of_gelu", lambda self, x: pooled(F.gelu(x)), lambda: [draw(2, 2, 8, 8)])
case("largest_beside", lambda self, x: (lambda y: (y, pooled(y)))(F.gelu(x)), lambda: [draw(2, 2, 8, 8)])
case(
    "repeated_silu",
    lambda self, x: F.interpolate(F.silu(x), scale_factor=8, mode="nearest"),
    lambda: [draw(1, 2, 3, 4)],
)
layer(
    "by_channel_twice",
    lambda: nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, groups=3), nn.ReLU(), nn.Conv2d(3, 3, 3, padding=1, groups=3)),
    lambda: [draw(2, 3, 6, 6)],
)
case("patches", lambda self, x: F.unfold(x, 3), lambda: [draw(2, 3, 5, 6)])
case("largest_and_where", lambda self, x: F.max_pool2d(x, 2, return_indices=True), lambda: [draw(2, 3, 6, 8)])
layer("by_channel", lambda: nn.Conv2d(3, 3, 3, padding=1, groups=3), lambda: [draw(2, 3, 5, 6)])
layer("by_channel_wide", lambda: nn.Conv1d(3, 3, 10, stride=2, groups=3), lambda: [draw(2, 3, 31)])
layer("by_channel_large", lambda: nn.Conv2d(3, 3, 7, padding=3, groups=3), lambda: [draw(2, 3, 21, 38)])
layer(
    "by_channel_twice_over",
    lambda: nn.Sequential(nn.Conv2d(4, 8, (3, 5), (2, 1), (1, 3), (2, 3), 4, bias=False), nn.SiLU()).half(),
    lambda: [half(2, 4, 19, 40)],
)

# Running totals.
case("added_up_masked", lambda self, x, m: (x * m).cumsum(1), lambda: [draw(3, 70), torch.rand(3, 70) > 0.5])
case("added_up_columns", lambda self, x: x.cumsum(0) + 1, lambda: [draw(70, 5)])
case("added_up_long", lambda self, x: x.cumsum(1), lambda: [draw(2, 9001)])
case("added_up_behind_long", lambda self, x: x.flip(1).cumsum(1).flip(1), lambda: [draw(2, 9001)])
case("multiplied_up_long", lambda self, x: (x * 0.01 + 1).cumprod(1), lambda: [draw(2, 4500)])
case("largest_so_far_long", lambda self, x: x.cummax(1)[0] - x, lambda: [draw(2, 4500)])
case("added_up_one_row", lambda self, x: x.cumsum(1), lambda: [draw(1, 16500)])
case("added_up_behind_one_row", lambda self, x: x.flip(0).cumsum(0).flip(0), lambda: [draw(13000)])
case("counted_up_long", lambda self, x: (x > 0).cumsum(1), lambda: [draw(2, 13000)])
case("added_up_columns_long", lambda self, x: x.cumsum(0) * x, lambda: [draw(1500, 20)])
case("added_up_twice", lambda self, x: x.cumsum(1).cumsum(1), lambda: [draw(2, 2000)])
case("added_up_middle", lambda self, x: x.exp().cumsum(1), lambda: [draw(2, 13, 5)])
case("added_up_behind", lambda self, x: x.flip(1).cumsum(1).flip(1) * 2, lambda: [draw(3, 13)])
case("added_up_before", lambda self, x: F.pad(x[:, :-1], (1, 0)).cumsum(1), lambda: [draw(3, 13)])
case("counted_up", lambda self, x: (x > 0).cumsum(-1), lambda: [draw(3, 13)])
case("multiplied_up", lambda self, x: x.cumprod(1), lambda: [draw(3, 13)])
case("largest_so_far", lambda self, x: x.cummax(1)[0], lambda: [draw(3, 13)])
case("added_up_halves", lambda self, x: x.cumsum(1), lambda: [half(3, 40)])
case("added_up_softmax", lambda self, x: x.softmax(-1).cumsum(-1), lambda: [draw(3, 13)])
case("added_up_both_ways", lambda self, x: x.cumsum(1) + x.flip(1).cumsum(1).flip(1), lambda: [draw(3, 13)])

# Convolutions.
layer("convolved", lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU()), lambda: [draw(2, 3, 8, 9)])
layer("convolved_padded", lambda: nn.Conv2d(3, 5, 3, stride=2, padding=(1, 2)), lambda: [draw(2, 3, 8, 9)])
layer(
    "convolved_dilated", lambda: nn.Conv2d(4, 6, (2, 3), padding=2, dilation=2, bias=False), lambda: [draw(1, 4, 7, 8)]
)
layer("convolved_groups", lambda: nn.Conv2d(6, 4, 3, padding=1, groups=2), lambda: [draw(2, 6, 5, 6)])
layer("convolved_1d", lambda: nn.Conv1d(3, 4, 5, padding=2), lambda: [draw(2, 3, 20)])
layer("convolved_3d", lambda: nn.Conv3d(2, 3, (2, 3, 2), stride=2), lambda: [draw(2, 2, 4, 7, 6)])
layer("convolved_in_slices", lambda: nn.Conv3d(9, 70, (3, 1, 2), (2, 1, 1), (2, 0, 1)), lambda: [draw(2, 9, 4, 9, 21)])
layer("convolved_in_tiles", lambda: nn.Conv2d(20, 70, 3, stride=(2, 1), padding=1), lambda: [draw(2, 20, 23, 30)])
layer("convolved_at_points", lambda: nn.Conv2d(9, 8, 1, stride=3, bias=False), lambda: [draw(1, 9, 8, 7)])
layer("convolved_far", lambda: nn.Conv1d(12, 16, 3, padding=40, dilation=40), lambda: [draw(2, 12, 300)])
case(
    "convolved_beside",
    lambda self, x: (F.conv2d(x, self.weight, padding=2) + x).relu(),
    lambda: [half(3, 72, 6, 70)],
    weight=lambda: half(72, 72, 5, 5),
)
layer("convolved_halves", lambda: nn.Conv2d(4, 5, 3, padding=1).half(), lambda: [half(2, 4, 5, 6)])
layer("convolved_in_pairs", lambda: nn.Conv2d(12, 9, (3, 4), 2, (0, 3)).half(), lambda: [half(2, 12, 7, 22)])
layer("convolved_in_even_pairs", lambda: nn.Conv2d(5, 9, 3, (1, 2), 2).half(), lambda: [half(2, 5, 7, 40)])
layer("convolved_permuted", lambda: nn.Conv2d(3, 4, 3), lambda: [draw(2, 8, 9, 3).permute(0, 3, 1, 2)])
case(
    "convolved_behind",
    lambda self, x: F.relu(F.conv1d(F.pad(x, (3, 0)), self.weight, self.bias, groups=3)),
    lambda: [half(2, 3, 40)],
    weight=lambda: half(3, 1, 4),
    bias=lambda: half(3),
)
case(
    "convolved_to_its_end",
    lambda self, x: F.conv2d(F.pad(x, (0, 1, 0, 1)), self.weight, stride=2),
    lambda: [draw(2, 3, 8, 10)],
    weight=(5, 3, 3, 3),
)
case(
    "convolved_around",
    lambda self, x: F.conv2d(F.pad(x, (2, 0, 0, 3)), self.weight, padding=(1, 0), dilation=(1, 2)),
    lambda: [half(2, 9, 7, 22)],
    weight=lambda: half(6, 9, 3, 3),
)
case(
    "convolved_at_padded_points",
    lambda self, x: F.conv2d(F.pad(x, (0, 2, 0, 0)), self.weight) + 1,
    lambda: [draw(2, 3, 5, 6)],
    weight=(4, 3, 1, 1),
)
case(
    "convolved_same",
    lambda self, x: F.conv2d(x, self.weight, padding="same", dilation=(1, 2)).relu(),
    lambda: [draw(2, 3, 7, 8)],
    weight=(4, 3, 2, 4),
)
case(
    "convolved_valid",
    lambda self, x: F.conv1d(x, self.weight, None, 2, "valid"),
    lambda: [draw(2, 3, 21)],
    weight=(4, 3, 5),
)
layer(
    "convolved_channels_last",
    lambda: nn.Conv2d(3, 5, 3, padding=1).to(memory_format=torch.channels_last),
    lambda: [draw(2, 3, 8, 9).to(memory_format=torch.channels_last)],
)
layer("convolved_and_cut", lambda: Cut(nn.Conv1d(3, 3, 4, padding=3, groups=3), -3), lambda: [draw(2, 3, 21)])
layer("convolved_and_cut_far", lambda: Cut(nn.Conv1d(3, 4, 3, padding=4, dilation=2), -4), lambda: [draw(2, 3, 20)])
case(
    "convolved_and_cut_before",
    lambda self, x: F.conv2d(x, self.weight, padding=2)[:, :, 1:, :-2],
    lambda: [draw(2, 3, 7, 8)],
    weight=(4, 3, 3, 3),
)
case(
    "convolved_and_cut_to_nothing",
    lambda self, x: F.conv1d(x, self.weight)[..., :0],
    lambda: [draw(2, 3, 20)],
    weight=(4, 3, 3),
)
case(
    "convolved_and_cut_twice",
    lambda self, x: (lambda y: y[:, :, 1:] - y[:, :, :-1])(F.conv1d(x, self.weight, padding=1)),
    lambda: [draw(2, 3, 20)],
    weight=(4, 3, 3),
)
case(
    "padded_channels_convolved",
    lambda self, x: F.conv1d(F.pad(x, (1, 1, 0, 1)), self.weight),
    lambda: [draw(2, 3, 20)],
    weight=(4, 4, 3),
)
case(
    "cropped_and_convolved",
    lambda self, x: F.conv1d(F.pad(x, (-1, 2)), self.weight),
    lambda: [draw(2, 3, 20)],
    weight=(4, 3, 3),
)

# At every place.
case(
    "gated_product",
    lambda self, x: F.glu(x @ self.weight, -1),
    lambda: [draw(6, 8).to(torch.bfloat16)],
    weight=lambda: draw(8, 10).to(torch.bfloat16),
)
layer("at_points", lambda: nn.Conv2d(3, 4, 1), lambda: [draw(2, 3, 5, 6)])
case("between", lambda self, x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: [draw(2, 3, 4, 5)])
case("between_thrice", lambda self, x: F.interpolate(x, (4, 7, 6), mode="trilinear"), lambda: [draw(2, 2, 2, 7, 3)])
case(
    "between_and_beside",
    lambda self, x, y: F.interpolate(F.relu(x), scale_factor=2, mode="bilinear") + y,
    lambda: [draw(2, 3, 4, 5), draw(2, 3, 8, 10)],
)
case(
    "between_sizes",
    lambda self, x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear") + y,
    lambda: [draw(2, 3, 4, 5), draw(2, 3, 7, 13)],
)
case(
    "between_sizes_corners",
    lambda self, x, y: torch.cat([F.interpolate(x, size=y.shape[2:], mode="bilinear", align_corners=True), y], 1),
    lambda: [draw(2, 3, 9, 5), draw(2, 4, 6, 13)],
)
case("ones_below", lambda self, x: torch.ones(x.shape[0], x.shape[0]).tril(), lambda: [draw(5, 3)])
case("between_infinite", lambda self, x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: [_steep()])
case(
    "between_costly",
    lambda self, x: F.interpolate(F.silu(x), scale_factor=2, mode="bilinear").flip(2),
    lambda: [draw(1, 2, 3, 4)],
)
case("largest_of_costly_flipped", lambda self, x: pooled(F.silu(x)).flip(2), lambda: [draw(1, 2, 4, 6)])
case("largest_of_permuted", lambda self, x: pooled(x.permute(0, 3, 1, 2).relu()), lambda: [draw(2, 5, 6, 3)])
case(
    "between_permuted",
    lambda self, x: F.interpolate(x.permute(0, 3, 1, 2).relu(), scale_factor=2, mode="bilinear"),
    lambda: [draw(2, 5, 6, 3)],
)
case("summed_and_flipped_often", lambda self, x: flipped_often(x), lambda: [draw(3, 8)])
case("wavelet", lambda self, x: haar(x), lambda: [draw(2, 32)])
case(
    "between_corners",
    lambda self, x: F.interpolate(x.view(-1, 3, 4), size=(7,), mode="linear", align_corners=True) * 2,
    lambda: [draw(2, 12)],
)
case(
    "divergence",
    lambda self, x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
    lambda: [draw(5, 7), draw(5, 7)],
)
case("normalised_largest", lambda self, x: (x - x.mean((1, 2), keepdim=True)).abs().amax(), lambda: [draw(3, 4, 5)])
case(
    "normalised_both_ways",
    lambda self, x: ((x - x.mean(0)) * (x - x.mean(1, keepdim=True))).sum(),
    lambda: [draw(6, 5)],
)
case("shifted_bits", lambda self, x: (x >> 3) ^ (x << 2), lambda: [torch.arange(-20, 20)])

MOVING = tuple(name for name in CASES if name not in _KNOWN)
"""Their names."""


def moving(name: str) -> tuple[ForwardPlan, list[Any]]:
    """The plan of one of them, and its inputs."""
    return _planned(name), CASES[name]()[1]


@functools.cache
def _planned(name: str) -> ForwardPlan:
    return forward_plan(lower(*CASES[name]()))
