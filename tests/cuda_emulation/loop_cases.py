"""Loop programs that the CUDA templates are held to: pointwise ones, those that reduce and `programs.examples`."""

from cuda_emulation.loop_plans import flags, plan_of
from cuda_emulation.row_cases import ROW_CASES
from programs.examples import EXAMPLES

from warpsmith.state.program import ForwardPlan, LoopProgram

POINTWISE_CASES: dict[str, ForwardPlan] = {
    "flat_with_tail": plan_of((1027,), flags(0), [("t", "tanh", "float32", 0, "in_x")], {"y": ("t", "float32")}),
    "aligned_bf16_to_float": plan_of(
        (64, 128),
        flags(0, 0),
        [("t", "cast", "float32", 0, "in_x"), ("u", "mul", "float32", 0, "t", "in_s")],
        {"y": ("u", "float32"), "h": ("u", "float16")},
        loads={"x": (128, 1), "s": (0, 0)},
        dtypes={"x": "bfloat16"},
    ),
    "transposed": plan_of(
        (48, 70),
        flags(0, 0),
        [("t", "add", "float32", 0, "in_x", "in_r")],
        {"y": ("t", "float32")},
        loads={"x": (1, 48), "r": (70, 1)},
    ),
    "transposed_batch": plan_of(
        (3, 32, 64),
        flags(0, 0, 0),
        [("t", "add", "bfloat16", 0, "in_x", "in_r")],
        {"y": ("t", "bfloat16")},
        loads={"x": (2048, 1, 32), "r": (0, 0, 1)},
        dtypes={"x": "bfloat16", "r": "bfloat16"},
    ),
    "broadcast_middle": plan_of(
        (4, 6, 8),
        flags(0, 0, 0),
        [
            ("i", "iota", "int64", 0, 1),
            ("f", "cast", "float32", 0, "i"),
            ("t", "mul", "float32", 0, "in_x", "f"),
            ("u", "add", "float32", 0, "t", "in_b"),
        ],
        {"y": ("u", "float32")},
        loads={"x": (48, 8, 1), "b": (8, 0, 1)},
    ),
    "odd_planes": plan_of(
        ("s0", 5, 77),
        flags(0, 0, 0),
        [
            ("i", "iota", "int64", 0, 1),
            ("f", "cast", "float32", 0, "i"),
            ("t", "mul", "float32", 0, "in_x", "f"),
            ("u", "add", "float32", 0, "t", "in_b"),
            ("v", "mul", "float32", 0, "u", "in_c"),
        ],
        {"y": ("v", "bfloat16")},
        loads={"x": (385, 77, 1), "b": (0, 1, 0), "c": (0, 0, 1)},
        dtypes={"x": "bfloat16"},
        symbols={"s0": (0, 0, 3)},
    ),
    "pixels": plan_of(
        (211, 3),
        flags(0, 0),
        [("f", "cast", "float32", 0, "in_x"), ("t", "mul", "float32", 0, "f", "in_b")],
        {"y": ("t", "float32")},
        loads={"x": (3, 1), "b": (0, 1)},
        dtypes={"x": "uint8"},
    ),
    "integers": plan_of(
        (3, 40),
        flags(0, 0),
        [
            ("q", "floor_div", "int64", 0, "in_x", 7),
            ("r", "remainder", "int64", 0, "in_x", 7),
            ("c", "fmod", "int64", 0, "in_x", 7),
            ("e", "bitwise_and", "int64", 0, "in_x", 12),
            ("s", "sign", "int64", 0, "in_x"),
        ],
        {k: (k, "int64") for k in "qrces"},
        dtypes={"x": "int64"},
    ),
    "scalar": plan_of((), (), [("t", "exp", "float32", 0, "in_x")], {"y": ("t", "float32")}, loads={"x": ()}),
    "symbolic_flat": plan_of(
        ("s0",), flags(0), [("t", "erf", "float32", 0, "in_x")], {"y": ("t", "float32")}, symbols={"s0": (0, 0, 300)}
    ),
}

LOOP_EXAMPLES = {name: plan for name, plan in EXAMPLES.items() if isinstance(plan.steps[0], LoopProgram)}
CASES: dict[str, ForwardPlan] = {**LOOP_EXAMPLES, **ROW_CASES, **POINTWISE_CASES}
