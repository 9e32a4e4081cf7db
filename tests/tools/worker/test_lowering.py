"""Lowering: what torch.export gives, written down as records, within its bounds."""

import time
from typing import Any

import programs.attention  # noqa: F401 - it adds cases
import pytest
import torch
from programs.references import CASES, Function, draw
from torch import nn

from warpsmith.state.lowered import LoweredGraph, bound
from warpsmith.tools.worker import lowering
from warpsmith.tools.worker.lowering import lower


def graph_of(function: Any, *inputs: Any, **options: Any) -> LoweredGraph:
    return lower(Function(function).eval(), inputs, **options)


def test_free_dimensions_become_symbols_with_their_sizes_as_hints() -> None:
    graph = lower(nn.Linear(7, 9), [draw(5, 7)])
    assert [(s.name, s.input, s.dim, s.hint) for s in graph.symbols] == [("s0", 0, 0, 5)]
    assert graph.nodes[-1].output is not None
    assert graph.nodes[-1].output.shape == ("s0", 9)


def test_only_the_dimensions_asked_for_are_free() -> None:
    graph = lower(nn.Softmax(-1), [draw(5, 7)], dynamic={0: [1]})
    assert [(s.input, s.dim) for s in graph.symbols] == [(0, 1)]
    assert not lower(nn.Softmax(-1), [draw(5, 7)], dynamic={}).symbols


def test_dimensions_of_one_element_are_fixed() -> None:
    assert [s.dim for s in lower(nn.ReLU(), [draw(1, 7)]).symbols] == [1]


def test_a_size_that_is_no_product_freezes_its_dimensions_only() -> None:
    graph = graph_of(lambda self, x, y: torch.cat([x, y], 0), draw(5, 7), draw(4, 7))
    assert [(s.input, s.dim, s.hint) for s in graph.symbols] == [(0, 1, 7)]
    assert graph.nodes[-1].output is not None
    assert graph.nodes[-1].output.shape == (9, "s0")


def test_how_many_places_windows_have_is_a_size_of_its_own() -> None:
    def steps(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool2d(x, 3, 2, 1).flatten(1)

    graph = graph_of(steps, draw(2, 3, 9, 12))
    *inputs, high, wide = graph.symbols
    assert [(s.input, s.dim) for s in inputs] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert (high.hint, wide.hint) == (5, 6)
    assert graph.nodes[-1].output is not None
    assert graph.nodes[-1].output.shape == ("s0", "s1*s4*s5")
    sizes = bound(graph.symbols, lambda number, dim: (2, 3, 11, 4)[dim])
    assert (sizes[high.name], sizes[wide.name]) == (6, 2)


def test_where_the_last_window_reaches_further_its_sizes_are_fixed() -> None:
    graph = graph_of(lambda self, x: torch.nn.functional.max_pool1d(x, 2, 2, ceil_mode=True), draw(2, 3, 9))
    assert [s.dim for s in graph.symbols] == [0, 1]


def test_a_float_of_a_size_fixes_it() -> None:
    graph = graph_of(lambda self, x: x * x.shape[-1] ** -0.5, draw(5, 7))
    assert not graph.unsupported
    assert [s.dim for s in graph.symbols] == [0]


def test_products_of_symbols_are_written_as_products() -> None:
    graph = graph_of(lambda self, x: x.reshape(-1, 4), draw(5, 7, 4), dynamic={0: [0, 1]})
    assert graph.nodes[-1].output is not None
    assert graph.nodes[-1].output.shape == ("s0*s1", 4)


def test_a_specialising_forward_falls_back_to_fixed_sizes() -> None:
    graph = graph_of(lambda self, x: x * len([i for i in range(x.shape[0]) if i > 2]), draw(6, 4))
    assert not graph.unsupported
    assert all(s.hint != 6 for s in graph.symbols)


def test_parameters_buffers_and_scalars_have_their_names() -> None:
    graph = graph_of(lambda self, x, scale: x * scale, draw(3, 4), 0.5)
    inputs = [n for n in graph.nodes if n.op == "input"]
    assert inputs[1].args == (0.5,)
    module = nn.BatchNorm1d(4).eval()
    names = {n.target: n.op for n in lower(module, [draw(3, 4)]).nodes}
    assert names["weight"] == "parameter"
    assert names["running_mean"] == "buffer"


def test_small_constants_are_literals() -> None:
    graph = graph_of(lambda self, x: x * torch.tensor([1.0, 2.0, 3.0]), draw(4, 3))
    assert [n.args for n in graph.nodes if n.op == "constant"] == [([1.0, 2.0, 3.0],)]


def test_strides_are_recorded_where_an_input_is_not_contiguous() -> None:
    graph = lower(nn.ReLU(), [draw(7, 5).t()], dynamic={})
    assert graph.nodes[0].strides == (1, 5)
    assert lower(nn.ReLU(), [draw(5, 7)]).nodes[0].strides is None


def test_the_result_keeps_its_structure() -> None:
    graph = lower(*CASES["structure"](), dynamic={})
    (first, second) = graph.outputs["dict"]
    assert first[0] == "a"
    assert first[1][1] is None
    assert second[1]["tuple"][0] == 3
    assert second[1]["tuple"][2] is True


def test_changes_in_place_are_recorded() -> None:
    graph = graph_of(lambda self, x: x.add_(1), draw(3, 4))
    assert list(graph.updates) == list(graph.mutated) == [graph.nodes[0].name]


def test_attention_and_recurrent_cells_stay_whole() -> None:
    attention = "aten.scaled_dot_product_attention.default"
    for name, operator in (("attention_of_groups", attention), ("recurrent", "aten.gru.input")):
        assert operator in [n.op for n in lower(*CASES[name]()).nodes]


def test_how_many_heads_share_keys_is_known() -> None:
    """Heads are fixed for it where only a call's flag says that they come in groups; other sizes stay free."""
    graph = lower(*CASES["attention_of_groups"]())
    shapes = [node.output.shape for node in graph.nodes[:3] if node.output is not None]
    assert [shape[1] for shape in shapes] == [6, 2, 2]
    assert all(isinstance(shape[axis], str) for shape in shapes for axis in (0, 2, 3))
    repeated = lower(*CASES["attention_of_groups_repeated"]())
    heads, groups = (node.output.shape[1] for node in repeated.nodes[:2] if node.output is not None)
    assert heads == f"3*{groups}"


@pytest.mark.parametrize(
    ("function", "fixed"),
    [
        (lambda self, x: x[:, :, : int(x.shape[2] * 0.5)], {2}),
        (lambda self, x: torch.nn.functional.interpolate(x, size=(int(x.shape[2] * 1.5), x.shape[3])), {2}),
        (lambda self, x: torch.nn.functional.max_pool2d(x, (1, 3), (1, 2)), {3}),
        (lambda self, x: torch.nn.functional.max_pool2d(x, 2, 1), set()),
        (lambda self, x: x.unflatten(0, (1, -1)).flatten(1), set()),
    ],
    ids=["half as a float", "three halves", "one window", "several windows", "seen otherwise"],
)
def test_a_size_that_a_number_was_taken_for_is_not_free(function: Any, fixed: set[int]) -> None:
    """The plan for a height of 9 would cut off at 4 at any height; and one window is one at few widths."""
    graph = graph_of(function, draw(2, 8, 9, 3))
    output = graph.nodes[0].output
    assert output is not None
    assert {dim for dim, size in enumerate(output.shape) if isinstance(size, int)} == fixed


def test_models_and_inputs_on_the_meta_device_lower_alike() -> None:
    with torch.device("meta"):
        module, inputs = nn.Linear(7, 9), [torch.randn(5, 7)]
    assert lower(module, inputs).nodes == lower(nn.Linear(7, 9), [draw(5, 7)]).nodes


def branching(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else x


def unrolled(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
    for _ in range(4000):
        x = x * 2 + 1
    return x


def many(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
    for _ in range(30):
        x = x * 2 + 1
    return x


@pytest.mark.parametrize(
    ("function", "inputs", "why"),
    [
        (branching, [draw(3, 4)], "control flow on data"),
        (lambda self, x: x[x > 0], [draw(3, 4)], "a number read from data"),
        (lambda self, x: x[0] + x[1], [[draw(3), draw(3)]], "list, tuple or dict"),
        (lambda self, x: self.missing(x), [draw(3, 4)], "AttributeError"),
        (lambda self, x: {"a"}, [draw(3, 4)], "torch.export failed"),
    ],
)
def test_what_cannot_be_lowered_says_why_in_one_line(function: Any, inputs: list[Any], why: str) -> None:
    graph = lower(Function(function).eval(), inputs)
    assert why in graph.unsupported
    assert "\n" not in graph.unsupported
    assert graph.nodes == ()


def test_lowering_gives_up_at_its_deadline() -> None:
    began = time.monotonic()
    graph = graph_of(unrolled, draw(3, 4), deadline_s=0.5)
    assert "longer than 0.5 s" in graph.unsupported
    assert time.monotonic() - began < 5


def test_too_many_operators_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "MAX_NODES", 40)
    assert "operators, more than the 40" in graph_of(many, draw(3), dynamic={}).unsupported


def test_a_lowered_graph_survives_json() -> None:
    for name in ("group_norm", "mask", "structure", "constant"):
        graph = lower(*CASES[name]())
        again = LoweredGraph.model_validate_json(graph.model_dump_json())
        assert again.model_dump_json() == graph.model_dump_json()
