"""Attention in the forms that people write; `CASES` has them too."""

import math

import torch
import torch.nn.functional as F
from programs.references import CASES, case, draw, layer
from torch import nn

_KNOWN = set(CASES)


def heads(rows: int = 37, depth: int = 16, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return draw(2, 3, rows, depth, dtype=dtype)


def halves(rows: int = 37, depth: int = 16) -> torch.Tensor:
    return heads(rows, depth, torch.float16)


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def later(q: torch.Tensor) -> torch.Tensor:
    return torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)


def near(q: torch.Tensor, most: int, least: int = 0) -> torch.Tensor:
    back = torch.arange(q.shape[-2])[:, None] - torch.arange(q.shape[-2])[None, :]
    return (back >= least) & (back < most)


def far(q: torch.Tensor) -> torch.Tensor:
    return (torch.arange(q.shape[-2])[:, None] - torch.arange(q.shape[-2])[None, :]).abs()


class Block(nn.Module):
    """Heads cut out of one product, a mask that is kept, and a product behind."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.register_buffer("mask", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, width = x.shape
        q, k, v = (part.view(batch, rows, 2, 16).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        found = scores(q, k).masked_fill(self.mask[:, :, :rows, :rows] == 0, -math.inf)
        return self.out((found.softmax(-1) @ v).transpose(1, 2).reshape(batch, rows, width))


def _emptied() -> torch.Tensor:
    mask = draw(2, 1, 37, 50) > -0.5
    mask[0, 0, 5] = False  # A row that attends to nothing.
    return mask


case("attended", lambda self, q, k, v: scores(q, k).softmax(-1) @ v, lambda: [heads(), heads(50), heads(50, 24)])
case("attended_halves", lambda self, q, k, v: scores(q, k).softmax(-1) @ v, lambda: [halves(), halves(50), halves(50)])
case(
    "attended_causal",
    lambda self, q, k, v: scores(q, k).masked_fill(later(q), -math.inf).softmax(-1) @ v,
    lambda: [heads(70), heads(70), heads(70)],
)
case(
    "attended_nearby",
    lambda self, q, k, v: scores(q, k).masked_fill(later(q).roll(3, 1).triu(4), -math.inf).softmax(-1) @ v,
    lambda: [halves(70), halves(70), halves(70)],
)
case(
    "attended_in_a_window",
    lambda self, q, k, v: scores(q, k).masked_fill(~near(q, 9), -math.inf).softmax(-1) @ v,
    lambda: [heads(90), heads(90), heads(90)],
)
case(
    "attended_long_ago",
    lambda self, q, k, v: scores(q, k).masked_fill(~near(q, 60, 30), -math.inf).softmax(-1) @ v,
    lambda: [heads(90), heads(90), heads(90)],
)
case(
    "attended_by_head",
    lambda self, q, k, v: (scores(q, k) - far(q) * 2.0 ** (-torch.arange(1, 4) * 8 / 3).view(3, 1, 1)).softmax(-1) @ v,
    lambda: [heads(40), heads(40), heads(40)],
)
case(
    "attended_emptied",
    lambda self, q, k, v, mask: scores(q, k).masked_fill(mask, -math.inf).softmax(-1) @ v,
    lambda: [heads(), heads(50), heads(50), ~_emptied()],
)
case(
    "attended_with_bias",
    lambda self, q, k, v, bias: (scores(q, k) + bias).softmax(-1) @ v + v.mean(-2, keepdim=True),
    lambda: [heads(), heads(), heads(), draw(3, 37, 37)],
)
case("attended_alone", lambda self, q, k: (q @ k.mT).softmax(-1) @ k, lambda: [draw(40, 16), draw(33, 16)])
case("attention_call", lambda self, *qkv: F.scaled_dot_product_attention(*qkv), lambda: [heads(), heads(50), heads(50)])
case(
    "attention_call_causal",
    lambda self, *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True, scale=0.5),
    lambda: [heads(70), heads(70), heads(70)],
)


case(
    "attention_call_masked",
    lambda self, q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
    lambda: [heads(), heads(50), heads(50, 8), _emptied()],
)
case(
    "attention_call_biased",
    lambda self, q, k, v, bias: F.scaled_dot_product_attention(q, k, v, attn_mask=bias),
    lambda: [heads(), heads(50), heads(50, 8), draw(37, 50)],
)


def grouped(q: torch.Tensor, *kv: torch.Tensor) -> list[torch.Tensor]:
    """Each key and value for all heads of its group."""
    batch, groups, rows, depth = kv[0].shape
    shared = (batch, groups, q.shape[1] // groups, rows, depth)
    return [x[:, :, None].expand(shared).reshape(batch, q.shape[1], rows, depth) for x in kv]


case(
    "attention_of_groups",
    lambda self, q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    lambda: [draw(2, 6, 37, 16), draw(2, 2, 50, 16), draw(2, 2, 50, 16)],
)
case(
    "attention_of_groups_repeated",
    lambda self, q, k, v: (scores(q, k.repeat_interleave(3, 1)) + far(q)).softmax(-1) @ v.repeat_interleave(3, 1),
    lambda: [draw(2, 6, 37, 16), draw(2, 2, 37, 16), draw(2, 2, 37, 24)],
)
case(
    "attention_of_groups_expanded",
    lambda self, q, k, v: F.scaled_dot_product_attention(q, *grouped(q, k, v), is_causal=True).transpose(1, 2),
    lambda: [draw(2, 4, 70, 16).half(), draw(2, 2, 70, 16).half(), draw(2, 2, 70, 16).half()],
)
layer("attention_block", Block, lambda: [draw(2, 40, 32)])

OTHER_SIZES = {
    "attended": lambda: [heads(5), heads(130), heads(130, 40)],
    "attention_call": lambda: [heads(70, 20), heads(9, 20), heads(9, 36)],
    "attention_call_causal": lambda: [heads(9, 16), heads(150, 16), heads(150, 16)],
    "attention_of_groups": lambda: [draw(3, 6, 5, 20), draw(3, 2, 9, 20), draw(3, 2, 9, 20)],
    "attention_call_masked": lambda: [heads(37), heads(0), heads(0, 8), _emptied()[..., :0]],
    "convolved_padded": lambda: [draw(3, 3, 5, 12)],
    "convolved_1d": lambda: [draw(3, 3, 9)],
}
"""Inputs of other sizes than those that a plan was made for."""

ATTENTION = tuple(name for name in CASES if name not in _KNOWN)

"""Their names."""
