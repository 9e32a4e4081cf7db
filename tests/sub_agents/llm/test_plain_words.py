"""Operators and signatures in words."""

from warpsmith.state.lowered import LoweredGraph, Node, Symbol, Value
from warpsmith.state.problem import Problem, Workload
from warpsmith.sub_agents.llm.plain_words import operators_in_words, signature


def value(*shape: int | str, dtype: str = "float32") -> Value:
    return Value(shape=shape, dtype=dtype)


def test_a_graph_reads_as_one_line_an_operator():
    graph = LoweredGraph(
        nodes=(
            Node(name="w", op="parameter", target="linear.weight", output=value(8, 4)),
            Node(name="x", op="input", target="x", output=value("s0", 4), strides=(1, "s0")),
            Node(name="mm", op="aten.mm.default", args=({"ref": "x"}, {"ref": "w"}), output=value("s0", 8)),
            Node(name="top", op="aten.topk.default", args=({"ref": "mm"}, 2, -1), output_count=2),
            Node(name="first", op="getitem", args=({"ref": "top"}, 0), output=value("s0", 2)),
            Node(
                name="odd", op="aten.frobnicate.out", args=({"ref": "first"}, 3), kwargs={"dtype": {"dtype": "int32"}}
            ),
        ),
        outputs={"tuple": [{"ref": "first"}, {"ref": "odd"}]},
        symbols=(Symbol(name="s0", input=0, dim=0, hint=64),),
        mutated=("x",),
    )
    assert operators_in_words(graph).splitlines() == [
        "s0 = 64 now, may vary (input 0, dimension 0)",
        "w: parameter linear.weight float32 (8, 4)",
        "x: input x float32 (s0, 4), strides [1, 's0']",
        "mm: float32 (s0, 8) = matrix product of x and w",
        "top: = the 2 largest of mm along dimension -1, with their positions",
        "first: float32 (s0, 2) output 0 of top",
        "odd: = frobnicate(first, 3, dtype=int32)",
        "changes in place: x",
        "returns (first, odd)",
    ]


def test_a_reference_that_cannot_be_lowered_says_why():
    graph = LoweredGraph(nodes=(), outputs=None, unsupported="data-dependent control flow")
    assert operators_in_words(graph) == "(not available: data-dependent control flow)"


def test_a_signature_has_layouts_scalars_ranges_and_the_constructor():
    problem = Problem(
        name="p",
        path="p.py",
        source="",
        workloads=(
            Workload(name="default", inputs=({"shape": [4, 8], "dtype": "bfloat16", "strides": [1, 4]}, 0.5)),
            Workload(name="small", arguments={"rows": 2}, timed=False),
        ),
        ranges={"rows": (1, 64)},
        init_arguments={"list": [{"literal": 4096, "type": "int"}, {"tuple": [{"literal": 1e-5, "type": "float"}]}]},
    )
    assert signature(problem).splitlines() == [
        "default: bfloat16 [4, 8] strides [1, 4]; 0.5",
        "small (rows=2) (checked, not timed): no inputs",
        "rows may vary from 1 to 64",
        "constructor arguments: 4096, [1e-05]",
    ]
    assert signature(problem.model_copy(update={"init_arguments": {"list": []}})).endswith(
        "constructor arguments: none"
    )
