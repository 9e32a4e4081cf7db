"""The planner on many small references: the plan, interpreted by brute force, computes what the module computes."""

import functools
from typing import Any

import pytest
import torch
from programs.attention import ATTENTION
from programs.interpreter import run_plan
from programs.moving import MOVING
from programs.references import CASES

from warpsmith.state.lowered import LoweredGraph
from warpsmith.state.program import ForwardPlan, LoopProgram, MatmulProgram, TorchStep
from warpsmith.sub_agents.planner import forward_plan
from warpsmith.tools.worker.lowering import lower

HALVES = (torch.float16, torch.bfloat16)


@functools.cache
def lowered(name: str, fixed: bool) -> LoweredGraph:
    """Export costs most of these tests' time."""
    graph = lower(*CASES[name](), dynamic={} if fixed else None)
    assert not graph.unsupported, graph.unsupported
    return graph


@functools.cache
def plan_of(name: str, fixed: bool) -> ForwardPlan:
    """A plan is a record: whoever uses it leaves it as it is."""
    return forward_plan(lowered(name, fixed))


def planned(name: str, fixed: bool = False) -> tuple[ForwardPlan, torch.nn.Module, list[Any]]:
    module, inputs = CASES[name]()
    return plan_of(name, fixed), module, inputs


def weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict(module.named_parameters()) | dict(module.named_buffers())


def assert_same(found: Any, expected: Any) -> None:
    """Structure, shapes and types exactly; values to rounding, where halves round differently when fused."""
    if isinstance(expected, torch.Tensor):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        tolerance = 2e-2 if expected.dtype in HALVES else 2e-5
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert isinstance(found, tuple) == isinstance(expected, tuple)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_the_plan_computes_what_the_module_computes(name: str) -> None:
    plan, module, inputs = planned(name)
    own_module, own_inputs = CASES[name]()
    own_inputs = [x.clone() if name.startswith("in_place") else x for x in inputs]
    expected = module(*inputs)
    assert_same(run_plan(plan, own_inputs, weights(own_module)), expected)
    assert_same(own_inputs, inputs)
    assert_same(weights(own_module), weights(module))


@pytest.mark.parametrize(
    "name", ["no_freedom_left", "scaled_masked_softmax", "group_norm", "linear_3d", "einsum", "convolution", "heads"]
)
@torch.no_grad()
def test_a_plan_with_fixed_sizes_computes_the_same(name: str) -> None:
    plan, module, inputs = planned(name, fixed=True)
    assert not plan.symbols
    assert_same(run_plan(plan, inputs, weights(module)), module(*inputs))


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("softmax", [(3, 29)]),
        ("relu_bias", [(11, 7)]),
        ("linear_3d", [(3, 4, 7)]),
        ("bmm_residual", [(3, 4, 6), (3, 6, 5), (3, 4, 5)]),
        ("mean_square", [(7, 3), (7, 3)]),
        ("variance", [(4, 9)]),
        ("group_norm", [(2, 6, 3, 7)]),
        ("sum_outer_and_inner", [(3, 4, 2, 5)]),
        ("einsum", [(3, 2, 4, 7), (3, 2, 5, 7)]),
        ("einsum_around", [(3, 7, 2, 5), (4, 7)]),
        ("between_sizes", [(3, 2, 5, 9), (3, 2, 6, 4)]),
        ("between_sizes_corners", [(3, 3, 5, 9), (3, 4, 6, 3)]),
        ("between_and_beside", [(1, 2, 3, 7), (1, 2, 6, 14)]),
        ("divergence", [(9, 4), (9, 4)]),
        ("convolved_to_its_end", [(3, 3, 6, 13)]),
        ("convolved_same", [(1, 3, 9, 5)]),
        ("convolved_behind", [(1, 3, 13)]),
        ("convolved_around", [(1, 9, 9, 31)]),
        ("padded", [(2, 5, 7)]),
        ("convolved_and_cut", [(3, 3, 9)]),
        ("convolved_and_cut_before", [(1, 3, 7, 20)]),
        ("attention_of_groups_repeated", [(3, 9, 21, 16), (3, 3, 21, 16), (3, 3, 21, 8)]),
        ("cumulative", [(4, 6)]),
        ("largest_3x3", [(3, 2, 6, 11)]),
        ("largest_wide", [(1, 4, 12, 8)]),
        ("averaged_inside", [(3, 2, 6, 11)]),
        ("averaged_behind", [(1, 1, 8)]),
        ("convolved_padded", [(3, 3, 5, 12)]),
        ("convolved_dilated", [(1, 4, 10, 6)]),
        ("convolved_3d", [(3, 2, 7, 5, 5)]),
    ],
)
@torch.no_grad()
def test_a_plan_with_free_dimensions_holds_at_other_sizes(name: str, shapes: list[tuple[int, ...]]) -> None:
    plan, module, given = planned(name)
    assert plan.symbols
    inputs = [torch.randn(shape).to(each.dtype) for shape, each in zip(shapes, given, strict=True)]
    assert_same(run_plan(plan, inputs, weights(module)), module(*inputs))


def kernels(plan: ForwardPlan) -> list[LoopProgram | MatmulProgram]:
    return [step for step in plan.steps if isinstance(step, (LoopProgram, MatmulProgram))]


ONE_KERNEL = """
    relu_bias channel_bias transposed split_gate two_outputs siblings softmax softmax_middle scaled_masked_softmax
    log_softmax_bf16 logsumexp mean_square max_and_index amax_amin variance norm center residual_and_norm
    rms_over_channels layer_norm layer_norm_2d group_norm group_norm_then_silu
    instance_norm batch_norm rms_norm linear linear_3d linear_permuted matmul_transposed bmm_residual broadcast_batch
    addmm einsum einsum_around einsum_behind einsum_heads einsum_both bf16_linear_silu row_scaled heads kl cosine
    attention_of_groups attention_of_groups_repeated attention_of_groups_expanded
"""


@pytest.mark.parametrize("name", ONE_KERNEL.split())
def test_what_fits_one_kernel_is_one_kernel(name: str) -> None:
    plan, _, _ = planned(name)
    assert len(kernels(plan)) == 1, [step.name for step in plan.steps]
    assert not plan.uncovered


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("einsum_permuted", [4, 6, 10]),
        ("einsum_around", [3, 5, 24]),
        ("einsum_behind", [3, 5, 24]),
        ("einsum_heads", [4, 10, 18]),
        ("einsum_both", [4, 5, 18]),
    ],
)
def test_a_sum_over_factors_has_the_largest_matrices_that_need_no_copy(name: str, sizes: list[int]) -> None:
    """With more in the batch than must be, a product would be one of vectors: slow, and right all the same."""
    (step,) = (each for each in planned(name, fixed=True)[0].steps if isinstance(each, MatmulProgram))
    assert sorted(int(size) for size in (step.m, step.n, step.k)) == sizes


@pytest.mark.parametrize("name", ["mean_times_other", "square_matrix"])
def test_a_broadcast_over_the_reduced_axis_stays_in_its_kernel(name: str) -> None:
    plan, _, _ = planned(name, fixed=True)
    assert len(kernels(plan)) == 1, [step.name for step in plan.steps]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("two_reductions", 2),
        ("rows_and_columns", 2),
        ("mean_times_wider", 2),
        ("nested_means", 2),
        ("two_layers", 2),
        ("linear_norm", 2),
        ("relu_before", 2),
        ("gated", 2),
        ("product_and_rowsum", 2),
        ("pairwise", 2),
        ("cross_entropy", 2),
    ],
)
def test_what_needs_two_kernels_is_two_kernels(name: str, count: int) -> None:
    plan, _, _ = planned(name)
    assert len(kernels(plan)) == count, [step.name for step in plan.steps]


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("sorted", "aten.sort.default"),
        ("transposed_convolution", "aten.conv_transpose2d.input"),
        ("empty_convolution", "aten.conv2d.default"),
        ("resized_by_a_factor_unseen", "aten.upsample_bilinear2d.vec"),
        ("recurrent", "aten.gru.input"),
    ],
)
def test_uncovered_operators_are_named_and_stay_in_pytorch(name: str, operator: str) -> None:
    plan, _, _ = planned(name)
    assert plan.uncovered == (operator,)
    assert any(isinstance(step, TorchStep) and step.op == operator for step in plan.steps)


def test_a_row_reduction_keeps_two_axes_when_everything_is_contiguous() -> None:
    plan, _, _ = planned("layer_norm", fixed=True)
    (step,) = kernels(plan)
    assert (step.space, step.reduced) == ((15, 11), (False, True))


def test_a_reduction_over_a_middle_dimension_is_outer_reduced_inner() -> None:
    plan, _, _ = planned("softmax_middle", fixed=True)
    (step,) = kernels(plan)
    assert (step.space, step.reduced) == ((3, 7, 4), (False, True, False))


def test_reduced_dimensions_that_are_not_adjacent_come_last_together() -> None:
    plan, _, _ = planned("sum_outer_and_inner", fixed=True)
    (step,) = kernels(plan)
    assert (step.space, step.reduced) == ((5, 2, 12), (False, True, True))
    assert step.loads[0].strides == (12, 60, 1)


def test_a_flat_chain_is_one_axis() -> None:
    plan, _, _ = planned("two_outputs", fixed=True)
    assert kernels(plan)[0].space == (24,)


def test_cheap_work_is_done_again_rather_than_written_and_read() -> None:
    plan, _, _ = planned("rows_and_columns")
    assert all(load.value in plan.inputs for step in kernels(plan) for load in step.loads)


def test_unused_work_is_dropped() -> None:
    plan, _, _ = planned("layer_norm")
    (step,) = kernels(plan)
    assert len(step.stores) == 1


def test_the_plan_survives_json() -> None:
    for name in ("structure", "group_norm", "convolution", "linear_3d"):
        plan, _, _ = planned(name)
        assert ForwardPlan.model_validate_json(plan.model_dump_json()) == plan


def test_planning_twice_gives_the_same_plan() -> None:
    for name in ("kl", "gated", "residual_and_norm"):
        assert planned(name)[0] == planned(name)[0]


@pytest.mark.parametrize("name", ["max_and_index", "logsumexp", "sum_all", "count_positive", "matvec"])
def test_a_squeezed_result_is_made_in_its_own_shape(name: str) -> None:
    plan, _, _ = planned(name)
    assert [step.kind for step in plan.steps if step.kind == "view"] == []


def test_a_change_in_place_is_a_copy_after_everything_else() -> None:
    plan, _, _ = planned("in_place_and_result")
    assert [getattr(step, "op", step.kind) for step in plan.steps][-1] == "aten.copy_.default"
    assert plan.uncovered == ()


def test_a_kernel_that_reads_and_writes_an_input_at_the_same_places_stores_into_it() -> None:
    plan, _, _ = planned("in_place_input")
    (step,) = kernels(plan)
    assert [(store.into, store.strides) for store in step.stores] == [(step.loads[0].value, step.loads[0].strides)]


@pytest.mark.parametrize("name", ["in_place_and_result", "in_place_read_after"])
def test_an_input_whose_old_value_is_needed_elsewhere_is_left_alone_by_kernels(name: str) -> None:
    plan, _, _ = planned(name)
    assert [store.into for step in kernels(plan) for store in step.stores if store.into] == []


def test_a_normalisation_in_place_overwrites_its_rows_and_a_running_mean_does_not() -> None:
    (step,) = kernels(planned("in_place_softmax")[0])
    assert [bool(store.into) for store in step.stores] == [True]
    assert all(not store.into for step in kernels(planned("in_place_running")[0]) for store in step.stores)


def test_packed_projections_are_read_in_place() -> None:
    plan, _, _ = planned("packed_heads", fixed=True)
    (step,) = kernels(plan)
    assert isinstance(step, MatmulProgram)
    assert (step.a.value, step.b.value, step.b.offset) == ("inputs_0", "inputs_0", 8)


def test_two_products_of_one_left_factor_that_meet_are_one_kernel() -> None:
    (step,) = kernels(planned("gated_halves")[0])
    assert isinstance(step, MatmulProgram)
    assert step.also is not None
    assert {step.b.value, step.also.value} == {"p_gate", "p_up"}


@pytest.mark.parametrize("name", ["gated_float32", "gated_thin", "gated_by_the_first"])
def test_products_that_are_faster_apart_or_need_each_other_stay_apart(name: str) -> None:
    products = [step for step in kernels(planned(name)[0]) if isinstance(step, MatmulProgram)]
    assert [step.also for step in products] == [None, None]


def test_batch_axes_walked_as_one_are_one() -> None:
    (step,) = kernels(planned("einsum")[0])
    assert isinstance(step, MatmulProgram)
    assert step.batch == ("s0*s1",)
    (apart,) = kernels(planned("broadcast_batch", fixed=True)[0])
    assert isinstance(apart, MatmulProgram)
    assert apart.batch == (4, 2)


@pytest.mark.parametrize("name", ["unsplittable"])
@torch.no_grad()
def test_what_no_kernel_expresses_stays_in_pytorch(name: str) -> None:
    plan, module, inputs = planned(name)
    assert plan.uncovered
    assert_same(run_plan(plan, inputs), module(*inputs))


@pytest.mark.parametrize("name", [name for name in (*MOVING, *ATTENTION) if name != "largest_and_where"])
def test_what_moves_what_windows_read_and_what_attends_is_left_to_no_library(name: str) -> None:
    fixed = name == "averaged_blocks"  # Whether the windows are all alike depends on the sizes.
    assert planned(name, fixed)[0].uncovered == ()


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("joined", 1), ("stacked", 1), ("padded", 1), ("largest_of_relu", 1), ("embedded_norm", 1)],
)
def test_what_is_moved_is_computed_where_it_is_written(name: str, kernels: int) -> None:
    plan, _, _ = planned(name)
    assert [step.kind for step in plan.steps] == ["loop"] * kernels
