"""Shared memory of judge and child: layouts of any kind, one process writing what the other reads."""

import os

import pytest
import torch

from warpsmith.state.problem import TensorSpec
from warpsmith.tools.worker import buffers
from warpsmith.tools.worker.bench import Bench, BenchPlan, Copies

CPU = torch.device("cpu")
TENSORS = [
    torch.arange(24.0).reshape(4, 6),
    torch.arange(24).reshape(4, 6).t(),
    torch.arange(6.0).expand(5, 6),
    torch.arange(60.0).bfloat16().reshape(3, 20)[:, ::3],
    torch.tensor([True, False, True]),
    torch.empty(0, 7),
    torch.tensor(3.5, dtype=torch.float16),
    torch.arange(5, dtype=torch.int8),
]


def test_tensors_of_every_layout_come_back_from_one_buffer():
    layout = buffers.Layout([buffers.spec_of(tensor) for tensor in TENSORS])
    buffer = buffers.allocate(layout.size_bytes, CPU)
    for view, tensor in zip(layout.views(buffer), TENSORS, strict=True):
        buffers.view(buffer, buffers.spec_of(tensor))  # a view alone writes nothing
        (view if 0 not in tensor.stride() else view[:1]).copy_(tensor if 0 not in tensor.stride() else tensor[:1])
    again = buffers.Layout.from_json(layout.as_json())
    for view, tensor in zip(again.views(buffer), TENSORS, strict=True):
        assert (view.shape, view.stride(), view.dtype) == (tensor.shape, tensor.stride(), tensor.dtype)
        assert torch.equal(view, tensor)


def test_tensors_in_one_buffer_are_aligned_and_apart():
    layout = buffers.Layout([buffers.spec_of(tensor) for tensor in TENSORS])
    assert all(offset % buffers.ALIGNMENT_BYTES == 0 for offset in layout.offsets)
    ends = [o + buffers.storage_bytes(s) for o, s in zip(layout.offsets, layout.specs, strict=True)]
    assert all(end <= start for end, start in zip(ends, layout.offsets[1:], strict=False))
    assert ends[-1] <= layout.size_bytes


@pytest.mark.parametrize(
    ("shape", "strides", "dtype", "size"),
    [
        ((4, 6), (6, 1), "float32", 96),
        ((4, 6), (1, 4), "float16", 48),
        ((5, 6), (0, 1), "float32", 24),
        ((2, 3), (10, 2), "int64", 8 * 15),
        ((0, 7), (7, 1), "float32", 0),
        ((), (), "bool", 1),
    ],
)
def test_the_bytes_that_a_layout_spans(shape, strides, dtype, size):
    assert buffers.storage_bytes(TensorSpec(shape=shape, strides=strides, dtype=dtype)) == size


def test_another_mapping_of_the_descriptor_sees_what_is_written():
    ours = buffers.allocate(1000, CPU)
    theirs = buffers.open_buffer(os.dup(ours.export()), 1000, CPU)
    ours.bytes[123] = 45
    assert int(theirs.bytes[123]) == 45
    theirs.bytes[7] = 6
    assert int(ours.bytes[7]) == 6


def test_nobody_can_cut_a_shared_buffer_short():
    """Reading past the end of a mapped file is a signal that would end the judge."""
    buffer = buffers.allocate(10_000, CPU)
    for size in (0, 4096, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(buffer.export(), size)


def test_an_unknown_dtype_is_refused():
    for name in ("nonsense", "Tensor", "__doc__"):
        with pytest.raises(ValueError, match="no dtype"):
            buffers.dtype_of(name)


def test_a_bench_writes_inputs_and_poisons_outputs():
    inputs = [*TENSORS, 0.5, None]
    bench = Bench(inputs, [torch.empty(3, 4), torch.empty(5, dtype=torch.bfloat16)], CPU, BenchPlan(sets=2))
    for index in range(2):
        bench.output_tensors(index)[0].zero_()
        bench.write(inputs, index)
        assert bench.current == index
        assert all(torch.equal(a, b) for a, b in zip(bench.input_tensors(), TENSORS, strict=True))
        assert all(bool(output.isnan().all()) for output in bench.output_tensors(index))


def test_sets_of_a_bench_are_apart():
    bench = Bench([torch.zeros(100)], [torch.empty(7)], CPU, BenchPlan(sets=3))
    for index in range(3):
        bench.write([torch.full((100,), float(index))], index)
        bench.output_tensors(index)[0].fill_(10.0 + index)
    assert [float(bench.input_tensors(i)[0].mean()) for i in range(3)] == [0, 1, 2]
    assert [float(bench.output_tensors(i)[0].mean()) for i in range(3)] == [10, 11, 12]


def test_draws_go_to_a_set_that_nobody_can_predict():
    bench = Bench([torch.zeros(4)], [torch.empty(2)], CPU, BenchPlan(sets=2))
    places = []
    for number in range(64):
        bench.write([torch.full((4,), float(number))])
        assert float(bench.input_tensors()[0][0]) == number
        places.append(bench.current)
    assert set(places) == {0, 1}
    assert places != [0, 1] * 32


def test_inputs_mislead_from_the_first_write_until_they_are_restored():
    values = [torch.arange(1000.0), torch.arange(50), torch.randn(30, 7).t(), torch.tensor(2.0), torch.rand(9, 1)]
    values[-1] = values[-1].expand(9, 4)
    before = [value.clone() for value in values]
    bench = Bench(values, [torch.empty(2)], CPU, BenchPlan())
    for index in range(2):
        bench.write(values, index, misled=True)
    for index in range(2):
        shown = bench.input_tensors(index)
        alike = [torch.equal(a, b) for a, b in zip(shown, values, strict=True)]
        assert alike[:4] == [False, True, False, True]
        assert float((shown[0] != values[0]).sum()) <= 4
    assert all(torch.equal(a, b) for a, b in zip(values, before, strict=True)), "the judge's own values stay right"
    bench.restore()
    for index in range(2):
        assert all(torch.equal(a, b) for a, b in zip(bench.input_tensors(index), values, strict=True))


def test_decoys_that_were_never_put_right_are_forgotten_at_the_next_plain_write():
    bench = Bench([torch.arange(1000.0)], [torch.empty(2)], CPU, BenchPlan(sets=1))
    bench.write([torch.arange(1000.0)], misled=True)
    bench.write([torch.ones(1000)])
    bench.restore()
    assert torch.equal(bench.input_tensors()[0], torch.ones(1000))


def test_copies_hold_what_was_there_when_they_were_taken():
    bench = Bench([torch.zeros(6)], [torch.empty(5), torch.empty(2, 3)], CPU, BenchPlan(sets=2))
    copies = Copies(bench, [0])
    for index in range(2):
        bench.write([torch.full((6,), float(index))], index)
        bench.output_tensors(index)[0].fill_(10.0 + index)
        bench.output_tensors(index)[1].fill_(20.0 + index)
    copies.take()
    for index in range(2):
        bench.output_tensors(index)[1].zero_()
        bench.input_tensors(index)[0].zero_()
        assert [float(leaf.mean()) for leaf in copies.leaves(index)] == [10 + index, 20 + index, index]
        assert [tuple(leaf.shape) for leaf in copies.leaves(index)] == [(5,), (2, 3), (6,)]


@pytest.mark.parametrize("layout", ["misaligned", "strided"])
def test_other_layouts_hold_the_same_values(layout):
    values = [torch.randn(6, 5, 4), torch.randn(3, 8).t(), torch.arange(9), torch.randn(1, 5).expand(3, 5)]
    bench = Bench(values, [torch.empty(2)], CPU, BenchPlan(layout=layout))
    bench.write(values)
    tensors = bench.input_tensors()
    assert all(torch.equal(a, b) for a, b in zip(tensors, values, strict=True))
    if layout == "misaligned":
        assert all(tensor.data_ptr() % 16 for tensor in tensors)
    else:
        assert [tensor.stride() for tensor in tensors] == [(35, 7, 1), (1, 11), (2,), (0, 1)]
