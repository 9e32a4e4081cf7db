"""Casts of Triton's interpreter round as PyTorch's do."""

import numpy
import pytest
import torch
from triton import language as tl
from triton.runtime import interpreter

from warpsmith.tools.worker import interpreting

VALUES = torch.cat(
    [
        torch.randn(10_000, generator=torch.Generator().manual_seed(0)),
        torch.tensor([0.0, -0.0, 1.0 - 2**-20, -1.0 + 2**-20, 1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, -3.4e38, 1e-40]),
        torch.tensor([float("inf"), -float("inf"), float("nan")]),
    ]
)


def test_values_are_the_nearest_ones() -> None:
    found = torch.from_numpy(interpreting.rounded(VALUES.numpy()))
    torch.testing.assert_close(found, VALUES.bfloat16().float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("shape", [(8,), (4, 8)])
def test_a_cast_in_the_interpreter_rounds(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    builder = interpreter.InterpreterBuilder
    monkeypatch.setattr(builder, "cast_impl", builder.cast_impl)
    interpreting.round_to_nearest()
    given = numpy.full(shape, 1.0 - 2**-20, dtype=numpy.float32)
    kind = tl.block_type(tl.bfloat16, list(shape))
    handle = interpreter.TensorHandle(given, tl.float32)
    found = builder.cast_impl(builder(), handle, kind).data
    assert found.shape == shape
    assert (found == 0x3F80).all()  # One, and not the next lower value.
