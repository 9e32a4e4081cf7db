"""What is expected of a call: its output's layout, changes of its inputs, and the inputs it is nudged with."""

from typing import Any

import pytest
import torch
from expectations.holding import FP32, Function, drawn, passes
from torch import Tensor

from warpsmith.state.evaluation import Status
from warpsmith.tools.worker import expectation, structure
from warpsmith.tools.worker.expectation import check_layout, expect
from warpsmith.tools.worker.session import CandidateFailed

pytestmark = pytest.mark.usefixtures("one_thread_without_gradients")


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
