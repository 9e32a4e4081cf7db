"""The least work of a reference, against numbers counted by hand."""

from typing import Any

from warpsmith.state.lowered import LoweredGraph, Node, Symbol, Value
from warpsmith.tools.work import floor_work, gemm_ms


def value(*shape: int | str, dtype: str = "float32") -> Value:
    return Value(shape=shape, dtype=dtype)


def given(name: str, *shape: int | str, op: str = "input", **fields: Any) -> Node:
    dtype = fields.pop("dtype", "float32")
    return Node(name=name, op=op, output=value(*shape, dtype=dtype), target=name, **fields)


def call(name: str, op: str, *args: Any, shape: tuple[int | str, ...], dtype: str = "float32") -> Node:
    arguments = tuple({"ref": a} if isinstance(a, str) else a for a in args)
    return Node(name=name, op=f"aten.{op}", args=arguments, output=value(*shape, dtype=dtype))


def graph(*nodes: Node, outputs: Any, **fields: Any) -> LoweredGraph:
    return LoweredGraph(nodes=nodes, outputs=outputs, **fields)


def test_a_pointwise_operator_reads_its_inputs_and_writes_its_output_once() -> None:
    work = floor_work(
        graph(
            given("x", 4, 8),
            given("b", 8, op="parameter", dtype="bfloat16"),
            call("y", "add.Tensor", "x", "b", shape=(4, 8)),
            call("z", "mul.Tensor", "y", "y", shape=(4, 8)),
            outputs={"ref": "z"},
        )
    )
    assert (work.read_bytes, work.write_bytes) == (4 * 8 * 4 + 8 * 2, 4 * 8 * 4)
    assert work.other_flops == 64
    assert work.matmul_flops == {}


def test_a_linear_layer_counts_two_flops_a_multiply_add_by_operand_type() -> None:
    work = floor_work(
        graph(
            given("x", "s0", 16, dtype="bfloat16"),
            given("w", 32, 16, op="parameter", dtype="bfloat16"),
            call("y", "linear.default", "x", "w", shape=("s0", 32), dtype="bfloat16"),
            outputs={"ref": "y"},
            symbols=(Symbol(name="s0", input=0, dim=0, hint=8),),
        )
    )
    assert work.matmul_flops == {"bfloat16": 2.0 * 8 * 32 * 16}
    assert work.bytes == 2 * (8 * 16 + 32 * 16 + 8 * 32)
    assert gemm_ms(work, {"bf16": 8192.0}) == 1000.0


def test_other_sizes_can_be_asked_for() -> None:
    lowered = graph(
        given("x", "s0"),
        call("y", "relu.default", "x", shape=("s0",)),
        outputs={"ref": "y"},
        symbols=(Symbol(name="s0", input=0, dim=0, hint=8),),
    )
    assert floor_work(lowered).bytes == 64
    assert floor_work(lowered, {"s0": 100}).bytes == 800


def test_a_reduction_writes_only_its_result() -> None:
    work = floor_work(
        graph(given("x", 64, 32), call("y", "sum.dim_IntList", "x", [1], shape=(64,)), outputs={"ref": "y"})
    )
    assert (work.read_bytes, work.write_bytes) == (64 * 32 * 4, 64 * 4)


def test_what_is_not_used_is_not_read() -> None:
    work = floor_work(
        graph(
            given("x", 64, 32),
            given("unused", 1000),
            call("part", "slice.Tensor", "x", 0, 0, 8, shape=(8, 32)),
            call("y", "relu.default", "part", shape=(8, 32)),
            call("dead", "relu.default", "unused", shape=(1000,)),
            outputs={"ref": "y"},
        )
    )
    assert (work.read_bytes, work.write_bytes) == (8 * 32 * 4, 8 * 32 * 4)


def test_a_table_that_is_looked_up_may_be_read_in_one_place_only() -> None:
    work = floor_work(
        graph(
            given("table", 1000, 8, op="parameter"),
            given("index", 5, dtype="int64"),
            call("y", "embedding.default", "table", "index", shape=(5, 8)),
            outputs={"ref": "y"},
        )
    )
    assert (work.read_bytes, work.write_bytes) == (5 * 8, 5 * 8 * 4)


def test_expanded_dimensions_are_in_memory_once() -> None:
    lowered = graph(given("x", 4, 1000, strides=(1, 0)), call("y", "sum.default", "x", shape=()), outputs={"ref": "y"})
    assert floor_work(lowered).read_bytes == 16


def test_views_of_inputs_cost_nothing_and_expanded_results_their_base() -> None:
    nodes = (
        given("x", 4, 8),
        call("t", "permute.default", "x", [1, 0], shape=(8, 4)),
        call("m", "sum.dim_IntList", "x", [1], True, shape=(4, 1)),
        call("e", "expand.default", "m", [4, 8], shape=(4, 8)),
    )
    assert floor_work(graph(*nodes, outputs={"ref": "t"})).write_bytes == 0
    assert floor_work(graph(*nodes, outputs={"ref": "e"})).write_bytes == 16


def test_a_change_in_place_is_a_write() -> None:
    lowered = graph(
        given("x", 4, 8),
        call("y", "add.Tensor", "x", 1, shape=(4, 8)),
        outputs=None,
        mutated=("x",),
        updates={"x": "y"},
    )
    assert (floor_work(lowered).read_bytes, floor_work(lowered).write_bytes) == (128, 128)


def test_batched_products_and_attention_count_every_batch() -> None:
    bmm = graph(
        given("a", 3, 4, 5),
        given("b", 3, 5, 6),
        call("y", "bmm.default", "a", "b", shape=(3, 4, 6)),
        outputs={"ref": "y"},
    )
    assert floor_work(bmm).matmul_flops == {"float32": 2.0 * 3 * 4 * 6 * 5}
    attention = graph(
        given("q", 2, 4, 8),
        given("k", 2, 6, 8),
        call("y", "scaled_dot_product_attention.default", "q", "k", "k", shape=(2, 4, 8)),
        outputs={"ref": "y"},
    )
    assert floor_work(attention).matmul_flops == {"float32": 2.0 * 2 * 4 * 6 * (8 + 8)}
