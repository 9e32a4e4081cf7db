"""What a program must read and write at least, by lowering references that need less than they are given."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402, N812

from warpsmith.state.lowered import LoweredGraph  # noqa: E402
from warpsmith.tools.roofline import plain_product  # noqa: E402
from warpsmith.tools.windows_read import positions_read, taps_read  # noqa: E402
from warpsmith.tools.work import floor_work  # noqa: E402
from warpsmith.tools.worker.lowering import lower  # noqa: E402

SQUARE = (64, 64)
IMAGE = (2, 4, 32, 32)
ROWS = torch.arange(64)[:, None]


def lowered(forward: Callable[..., Any], *shapes: tuple[int, ...]) -> LoweredGraph:
    class Model(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return forward(*given)

    graph = lower(Model(), tuple(torch.zeros(shape) for shape in shapes), 60, {})
    assert not graph.unsupported
    return graph


def in_place(x: Any, y: Any) -> Any:
    x[:32] = y
    return x


def replaced(x: Any, y: Any) -> Any:
    return torch.slice_scatter(x * 2, y, 0, 0, 32)


@pytest.mark.parametrize(
    ("forward", "shapes", "elements"),
    [
        pytest.param(lambda x: x.diagonal() + 1, [SQUARE], 64, id="diagonal"),
        pytest.param(lambda x: x.tril(), [SQUARE], 0, id="tril"),
        pytest.param(lambda x: x.triu(1) * 2, [SQUARE], 0, id="triu"),
        pytest.param(lambda x: torch.where(ROWS.to(x.device) < 3, x, 0.0), [SQUARE], 0, id="where"),
        pytest.param(lambda x, c: torch.where(c > 0, x, 0.0), [SQUARE, SQUARE], 64 * 64, id="where_of_data"),
        pytest.param(lambda x: F.interpolate(x, scale_factor=0.25), [IMAGE], 512, id="interpolate"),
        pytest.param(lambda x: F.pad(x, (-3, -3)), [SQUARE], 64 * 58, id="pad_of_negative_width"),
        pytest.param(lambda x: F.pad(x, (-60, 60)), [SQUARE], 64 * 4, id="pad_that_moves"),
        pytest.param(lambda x: F.max_pool2d(x, 1, stride=2), [IMAGE], 8 * 16 * 16, id="max_pool"),
        pytest.param(lambda x: F.avg_pool2d(x, 2, stride=3), [IMAGE], 8 * 22 * 22, id="strides_wider_than_the_window"),
        pytest.param(
            lambda x, w: F.conv2d(x, w, stride=2), [IMAGE, (8, 4, 1, 1)], 8 * 16 * 16 + 32, id="strided_convolution"
        ),
        pytest.param(lambda x, y: torch.zeros_like(x) + y, [SQUARE, SQUARE], 64 * 64, id="zeros_like"),
        pytest.param(lambda x, y: torch.full_like(x, 2.0) * y, [SQUARE, SQUARE], 64 * 64, id="full_like"),
        pytest.param(lambda x, y: x.copy_(y), [SQUARE, SQUARE], 64 * 64, id="copy"),
        pytest.param(replaced, [SQUARE, (32, 64)], 64 * 64, id="slice_scatter"),
        pytest.param(in_place, [SQUARE, (32, 64)], 32 * 64, id="slice_scatter_in_place"),
        pytest.param(lambda t, i: (t * 2)[i.long()], [SQUARE, (5,)], 5, id="picked_rows_of_a_table"),
        pytest.param(lambda t, i: F.embedding(i.long(), t.t()), [SQUARE, (5,)], 5, id="embedding_in_a_view"),
        pytest.param(lambda t, i: t.relu().gather(1, i.long()), [SQUARE, (64, 2)], 128, id="gather_of_something_made"),
        pytest.param(lambda x: torch.relu(x + 1)[:8], [SQUARE], 8 * 64, id="slice_of_something_made"),
        pytest.param(lambda x, w: (x @ w)[:8], [SQUARE, SQUARE], 2 * 8 * 64, id="slice_of_a_product"),
        pytest.param(lambda x: x.t(), [SQUARE], 0, id="view_returned"),
        pytest.param(lambda x: x[:, :32] * x[:, 32:], [SQUARE], 64 * 64, id="two_halves"),
        pytest.param(lambda x: x[:, ::2] * x[:, 1::2], [SQUARE], 64 * 64, id="every_other"),
        pytest.param(lambda x: x[:, :32] * x[:, 16:48], [SQUARE], 64 * 32, id="slices_that_meet"),
        pytest.param(lambda x: x.chunk(2, 1)[0] * x.chunk(2, 1)[1], [SQUARE], 64 * 64, id="two_splits"),
        pytest.param(lambda x: x.unfold(0, 2, 3).sum(-1), [SQUARE], 42 * 64, id="unfold"),
        pytest.param(
            lambda q, k, m: F.scaled_dot_product_attention(q, k, k, m),
            [(2, 8, 16), (2, 8, 16), (8, 8)],
            64,
            id="masked_attention",
        ),
        pytest.param(lambda x: torch.softmax(x, 1), [SQUARE], 64 * 64, id="all_of_it"),
        pytest.param(lambda x: F.layer_norm(x, (64,)), [SQUARE], 64 * 64, id="several_results"),
    ],
)
def test_only_what_must_be_read_counts(forward: Callable[..., Any], shapes: list[Any], elements: int) -> None:
    work = floor_work(lowered(forward, *shapes))
    assert work.must_read_bytes == 4 * elements
    assert work.must_read_bytes <= work.read_bytes


def test_what_stays_in_place_is_not_written_again() -> None:
    work = floor_work(lowered(in_place, SQUARE, (32, 64)))
    assert (work.must_write_bytes, work.write_bytes) == (4 * 32 * 64, 4 * 64 * 64)


def test_results_that_share_elements_are_written_once() -> None:
    def both(x: Any) -> Any:
        y = x + 1
        return y, y.t()

    assert floor_work(lowered(both, SQUARE)).must_write_bytes == 4 * 64 * 64


@pytest.mark.parametrize("size", [1, 5, 8])
@pytest.mark.parametrize("taps", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
def test_windows_look_at_what_they_reach(size: int, taps: int, stride: int, padding: int, dilation: int) -> None:
    outputs = (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
    seen = [(o * stride + j * dilation - padding, j) for o in range(outputs) for j in range(taps)]
    inside = [(place, tap) for place, tap in seen if 0 <= place < size]
    given = (size, max(0, outputs), taps, stride, padding, dilation)
    assert positions_read(*given) == len({place for place, _ in inside})
    assert taps_read(*given) == len({tap for _, tap in inside})


@pytest.mark.parametrize(
    ("forward", "shapes", "plain"),
    [
        pytest.param(lambda x, w: x @ w, [SQUARE, SQUARE], True, id="product"),
        pytest.param(lambda x, w, b: F.linear(x, w, b), [SQUARE, SQUARE, (64,)], True, id="linear"),
        pytest.param(lambda x, w: x.expand(64, 64) @ w, [(1, 64), SQUARE], False, id="expanded"),
        pytest.param(
            lambda x, w: torch.bmm(x.expand(4, 64, 64), w.expand(4, 64, 64)), [SQUARE, SQUARE], False, id="batches"
        ),
        pytest.param(lambda w: w @ w.t(), [SQUARE], False, id="by_itself"),
        pytest.param(lambda x: x.split(64, 1)[0] @ x.split(64, 1)[1], [(64, 128)], False, id="two_splits"),
        pytest.param(lambda x: torch.mm(*x.split(64, 1)), [(64, 128)], True, id="split"),
        pytest.param(lambda x: x[:, :64] @ x[:, 32:96], [(64, 128)], False, id="slices_that_meet"),
        pytest.param(lambda x, w: torch.zeros_like(x) @ w, [SQUARE, SQUARE], False, id="zeros"),
        pytest.param(lambda x, w: (x @ w).tril(), [SQUARE, SQUARE], False, id="half_of_it"),
        pytest.param(lambda x, w: torch.einsum("ij,jk->ik", x, w), [SQUARE, SQUARE], True, id="einsum"),
        pytest.param(lambda x, w: torch.einsum("ij,jk->k", x, w), [SQUARE, SQUARE], False, id="einsum_summed"),
    ],
)
def test_a_product_is_plain_only_where_no_operand_repeats(
    forward: Callable[..., Any], shapes: list[Any], plain: bool
) -> None:
    assert plain_product(lowered(forward, *shapes)) is plain


def test_a_causal_attention_counts_the_keys_that_are_seen() -> None:
    def attention(q: Any, k: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, k, is_causal=True)

    assert floor_work(lowered(attention, (3, 8, 16), (3, 8, 16))).matmul_flops == {"float32": 2.0 * 3 * 36 * 32}
    longer = floor_work(lowered(attention, (3, 4, 16), (3, 8, 16)))
    assert longer.matmul_flops == {"float32": 2.0 * 3 * 10 * 32}
    assert longer.must_read_bytes == 4 * 3 * (4 + 4) * 16


def test_a_transposed_convolution_multiplies_every_input_by_a_window() -> None:
    work = floor_work(lowered(lambda x, w: F.conv_transpose2d(x, w, stride=2), IMAGE, (4, 8, 3, 3)))
    assert work.matmul_flops == {"float32": 2.0 * 2 * 4 * 32 * 32 * 8 * 9}
