"""Distances between outputs: summed over chunks, named by precision, and finite beyond measure."""

import pytest
import torch
from expectations.holding import FP32, Function, drawn

from warpsmith.tools.worker import compare
from warpsmith.tools.worker.expectation import check_leaf, expect, pool

pytestmark = pytest.mark.usefixtures("one_thread_without_gradients")


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


@pytest.mark.parametrize("size", [1e80, 1e160, 1e300])
def test_errors_beyond_measure_are_wrong_and_nothing_else(size):
    leaf = expect(Function(lambda x: x.double() * 2), [drawn(15, 3, 4)], FP32).leaves[0]
    actual = torch.full((3, 4), size, dtype=torch.float64)
    assert not pool([check_leaf(actual, leaf)])[0]
    assert compare.distance(actual, leaf.oracle).tail_factor >= 1
