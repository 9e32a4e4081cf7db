"""What gathers read: computed where it is read if that costs little, stored first where it would be computed often."""

import pytest
from programs.moving import moving
from programs.references import CASES

from warpsmith.state.program import LoopProgram, MatmulProgram
from warpsmith.sub_agents.planner import forward_plan
from warpsmith.sub_agents.planner.forward import plan_apart
from warpsmith.sub_agents.planner.recomputing import MOST_CHAINED, Recomputing
from warpsmith.sub_agents.planner.tensors import Graph
from warpsmith.tools.worker.lowering import lower

HEAVY = ("erf", "exp", "tanh", "sigmoid")


def steps(name: str) -> list[LoopProgram | MatmulProgram]:
    plan, _ = moving(name)
    found = [step for step in plan.steps if isinstance(step, (LoopProgram, MatmulProgram))]
    assert len(found) == len(plan.steps), [step.kind for step in plan.steps]
    return found


@pytest.mark.parametrize(
    "name", ["largest_of_gelu", "largest_beside", "repeated_silu", "between_costly", "largest_of_costly_flipped"]
)
def test_a_costly_value_is_computed_once_for_all_windows_that_it_is_in(name: str) -> None:
    first, second = steps(name)
    assert any(s.op in HEAVY for s in first.body)
    assert second.body
    assert not any(s.op in HEAVY for s in second.body)


@pytest.mark.parametrize("name", ["largest_of_relu", "padded", "stacked", "joined", "between", "between_and_beside"])
def test_a_cheap_one_is_computed_where_it_is_read(name: str) -> None:
    assert len(steps(name)) == 1


@pytest.mark.parametrize("name", ["between", "between_and_beside"])
def test_places_between_elements_are_counted_in_the_type_of_indices(name: str) -> None:
    """Of 64 bits, where the kernel's own have 32, each address would cost several times as much."""
    gathers = [s for step in steps(name) for s in step.body if s.table]
    assert gathers
    for step in steps(name):
        assert not any(s.dtype == "int64" for s in step.body)


def test_what_is_stored_only_to_be_widened_is_stored_narrow() -> None:
    first, second = steps("gated_product")
    assert [store.dtype for store in first.stores] == ["bfloat16"]
    assert isinstance(second, LoopProgram)
    assert [load.dtype for load in second.loads] == ["bfloat16", "bfloat16"]


@pytest.mark.parametrize("name", ["divergence", "normalised_largest"])
def test_a_total_of_what_rows_are_reduced_for_begins_with_their_rows(name: str) -> None:
    """Only a number for each row is stored, and not what it is the total of."""
    first, second = steps(name)
    assert isinstance(first, LoopProgram)
    assert isinstance(second, LoopProgram)
    (store,) = first.stores
    rows = [axis for axis, reduced in enumerate(first.reduced) if reduced]
    assert rows
    assert not any(store.strides[axis] for axis in rows)
    assert len(second.loads) == 1


def test_windows_over_windows_are_kernels_one_after_the_other() -> None:
    assert [sum(bool(s.table) for s in step.body) for step in steps("largest_thrice")] == [9, 9, 9]
    lowered = lower(*CASES["by_channel_twice"]())
    apart = plan_apart(lowered, forward_plan(lowered))
    assert apart is not None
    loops = [step for step in apart.steps if isinstance(step, LoopProgram)]
    assert [sum(bool(s.table) for s in step.body) for step in loops] == [9, 9]


def test_what_a_product_adds_from_elsewhere_does_not_take_its_epilogue_away() -> None:
    assert [step.kind for step in steps("flipped_beside_product")] == ["loop", "matmul"]


@pytest.mark.parametrize("name", ["largest_of_permuted", "between_permuted"])
def test_what_kernels_cannot_read_at_computed_places_is_stored_first(name: str) -> None:
    """Strides that no formula knows: an operator between makes a value that lies as tables do."""
    assert all(isinstance(step, LoopProgram) for step in steps(name))


@pytest.mark.parametrize("name", ["summed_and_flipped_often", "wavelet"])
def test_what_reads_itself_again_and_again_does_not_grow_without_end(name: str) -> None:
    """Each flip of a flip would double the statements; beyond a hundred or so what is read is stored."""
    assert all(len(step.body) <= 150 for step in steps(name))


def test_a_long_chain_is_not_looked_through_to_its_end() -> None:
    graph = Graph()
    x = graph.leaf("x", (8,), "float32")
    chain = [x]
    for number in range(5000):
        chain.append(graph.pointwise("add", chain[-1], float(number), dtype="float32"))
    moved = graph.gather(chain[-1], [graph.iota((8,), 0, "index")], (8,))
    recomputing = Recomputing([*chain, moved], {})
    assert recomputing.chain(chain[MOST_CHAINED]) is not None
    assert recomputing.chain(chain[MOST_CHAINED + 1]) is None
    assert recomputing.carried == frozenset()
