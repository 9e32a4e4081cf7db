"""Nested values as JSON and tensors, and which of them count as the same."""

import json
import math
from typing import Any

import pytest
import torch

from warpsmith.tools.worker.structure import UnsupportedLeaf, flatten, same, unflatten

A, B = torch.zeros(2), torch.ones(3)
NESTED: list[Any] = [
    A,
    (A, B),
    [A, (B, None)],
    {"loss": A, "aux": (B, None, 3)},
    {1: A, (2, 3): [True, "text", 2.5]},
    (),
    [[], {}],
    torch.bfloat16,
    float("inf"),
]


@pytest.mark.parametrize("value", NESTED, ids=range(len(NESTED)))
def test_flattening_and_back_gives_the_same_value_through_json(value):
    description, tensors = flatten(value)
    again, same_tensors = flatten(unflatten(json.loads(json.dumps(description)), tensors))
    assert same(again, description)
    assert all(a is b for a, b in zip(tensors, same_tensors, strict=True))


def test_tensors_are_numbered_in_order():
    assert [t.numel() for t in flatten({"a": [A, (B,)], "b": A})[1]] == [2, 3, 2]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((A, B), [A, B]),
        ((A,), A),
        ((A, None), (A,)),
        ({"a": A}, {"b": A}),
        ({"a": A, "b": B}, {"b": B, "a": A}),
        (3, 3.0),
        (1, True),
        ("1", 1),
        (None, 0),
        (2.5, 2.6),
        (0.0, 1e-9),
        (float("nan"), 0.0),
        (torch.float16, torch.bfloat16),
    ],
)
def test_kinds_of_containers_and_scalars_are_told_apart(left, right):
    assert not same(flatten(left)[0], flatten(right)[0])
    assert not same(flatten((A, left))[0], flatten((A, right))[0])


@pytest.mark.parametrize(
    ("left", "right"), [(0.1 + 0.2, 0.3), (math.nan, math.nan), (math.inf, math.inf), (1e30, 1e30)]
)
def test_numbers_that_forward_computed_may_differ_by_rounding(left, right):
    assert same(flatten(left)[0], flatten(right)[0])


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", (A, lambda: A), 1 + 2j])
def test_anything_else_is_named_and_refused(value):
    with pytest.raises(UnsupportedLeaf, match="neither a tensor nor a plain value"):
        flatten(value)


@pytest.mark.parametrize("said", [None, 3, "tensor", [], {}, {"tensor": "0"}, {"literal": 3}, {"tuple": None}])
def test_what_a_stranger_says_is_compared_without_trust(said):
    assert not same(said, flatten((A, 3))[0])


@pytest.mark.parametrize("number", [None, "abc", [1.0], 10**400, True, 0])
def test_a_stranger_may_call_anything_a_float(number):
    said = {"type": "float"} if number is None else {"type": "float", "literal": number}
    assert not same(said, flatten(0.0)[0])
