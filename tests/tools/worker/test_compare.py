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


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_ordinary_values_are_told_the_same_in_fewer_passes(scale, dtype):
    wanted = (scale * drawn(3, 999)).double()
    got = (wanted + scale * 1e-3 * drawn(4, 999).double()).to(dtype)
    facts = (2e-3 * scale, torch.finfo(dtype).max, 1e-9, 0)
    quick = compare._ordinary(got.double(), wanted, facts)
    thorough = compare._with_special_values(got.double(), wanted, facts, None)
    assert quick is not None
    for name in ("squared_error", "squared_value", "fourth_power", "largest"):
        assert getattr(quick, name) == pytest.approx(getattr(thorough, name), rel=1e-12), name
    assert (quick.count, quick.excess, quick.worst) == (thorough.count, thorough.excess, thorough.worst)
    assert quick.excess > 0


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("side", ["got", "wanted", "both"])
def test_what_is_not_finite_is_looked_at_thoroughly(odd, side):
    got, wanted = drawn(3, 64).double(), drawn(4, 64).double()
    for tensor, named in ((got, "got"), (wanted, "wanted")):
        if side in (named, "both"):
            tensor[7] = odd
    assert compare._ordinary(got, wanted, (1.0, torch.finfo(torch.float32).max, 0.0, 0)) is None


def test_a_value_that_the_outputs_type_cannot_hold_is_looked_at_thoroughly():
    wanted = torch.full((8,), 1e5, dtype=torch.float64)
    assert compare._ordinary(wanted, wanted, (1.0, torch.finfo(torch.float16).max, 0.0, 0)) is None


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
