"""Loop programs that reduce, for the CUDA templates beyond `programs.examples`."""

from cuda_emulation.loop_plans import flags, moments_body, plan_of, softmax_body

from warpsmith.state.program import ForwardPlan

ROW_CASES: dict[str, ForwardPlan] = {
    "softmax_fp16_aligned": plan_of(
        (5, 256), flags(0, 1), softmax_body("float16"), {"y": ("result", "float16")}, dtypes={"x": "float16"}
    ),
    "softmax_bf16_odd": plan_of(
        (3, 77), flags(0, 1), softmax_body("bfloat16"), {"y": ("result", "bfloat16")}, dtypes={"x": "bfloat16"}
    ),
    "softmax_double": plan_of(
        (3, 40), flags(0, 1), softmax_body("float64"), {"y": ("result", "float64")}, dtypes={"x": "float64"}
    ),
    "variance_and_mean": plan_of(
        (7, 192),
        flags(0, 1),
        moments_body(192),
        {"y": ("result", "float32"), "m": ("mean", "float32"), "v": ("variance", "float32")},
    ),
    "extremes": plan_of(
        (6, 50),
        flags(0, 1),
        [
            ("high", "reduce_argmax", "int64", 0, "in_x"),
            ("low", "reduce_argmin", "int64", 0, "in_x"),
            ("least", "reduce_min", "float32", 0, "in_x"),
            ("small", "mul", "float32", 0, "in_x", 0.5),
            ("prod", "reduce_prod", "float32", 0, "small"),
            ("over", "gt", "bool", 0, "in_x", 2.0),
            ("any", "reduce_any", "bool", 0, "over"),
            ("under", "lt", "bool", 0, "in_x", 5.0),
            ("all", "reduce_all", "bool", 0, "under"),
        ],
        {
            "a": ("high", "int64"),
            "b": ("low", "int64"),
            "c": ("least", "float32"),
            "d": ("prod", "float32"),
            "e": ("any", "bool"),
            "f": ("all", "bool"),
        },
    ),
    "integer_sum": plan_of(
        (4, 33),
        flags(0, 1),
        [("total", "reduce_sum", "int64", 0, "in_x"), ("top", "reduce_max", "int32", 0, "in_x")],
        {"y": ("total", "int64"), "z": ("top", "int32")},
        dtypes={"x": "int32"},
    ),
    "residual_with_row_scale": plan_of(
        (9, 64),
        flags(0, 1),
        [
            ("scaled", "mul", "float32", 0, "in_x", "in_scale"),
            ("both", "add", "float32", 0, "scaled", "in_r"),
            ("act", "sigmoid", "float32", 0, "both"),
            ("sq", "square", "float32", 0, "act"),
            ("total", "reduce_sum", "float32", 0, "sq"),
            ("norm", "sqrt", "float32", 1, "total"),
            ("result", "div", "float32", 1, "act", "norm"),
        ],
        {"h": ("both", "float32"), "y": ("result", "float32"), "n": ("norm", "float32")},
        loads={"x": (64, 1), "scale": (1, 0), "r": (64, 1)},
    ),
    "channel_norm": plan_of(
        (2, 24, 40),
        flags(0, 1, 0),
        [
            ("sq", "square", "float32", 0, "in_x"),
            ("total", "reduce_sum", "float32", 0, "sq"),
            ("mean", "div", "float32", 1, "total", 24),
            ("scale", "rsqrt", "float32", 1, "mean"),
            ("n", "mul", "float32", 1, "in_x", "scale"),
            ("result", "mul", "float32", 1, "n", "in_w"),
            ("shifted", "add", "float32", 1, "result", "in_b"),
        ],
        {"y": ("shifted", "float32"), "s": ("scale", "float32")},
        loads={"x": (960, 40, 1), "w": (0, 1, 0), "b": (0, 0, 1)},
    ),
    "column_moments_bf16": plan_of(
        (2, 50, 24),
        flags(0, 1, 0),
        moments_body(50),
        {"y": ("result", "bfloat16"), "v": ("variance", "float32")},
        dtypes={"x": "bfloat16"},
    ),
    "column_sum_long": plan_of(
        (700, 12),
        flags(1, 0),
        [("total", "reduce_sum", "float32", 0, "in_x"), ("place", "reduce_argmin", "int64", 0, "in_x")],
        {"y": ("total", "float32"), "i": ("place", "int64")},
    ),
    "column_softmax_symbolic": plan_of(
        ("s0", "s1", 16),
        flags(0, 1, 0),
        softmax_body(),
        {"y": ("result", "float32")},
        symbols={"s0": (0, 0, 3), "s1": (0, 1, 30)},
    ),
    "two_reduced_axes_apart": plan_of(
        (6, 5, 8, 4),
        flags(1, 0, 1, 0),
        [
            ("total", "reduce_sum", "float32", 0, "in_x"),
            ("place", "iota", "int64", 0, 2),
            ("weight", "cast", "float32", 0, "place"),
            ("moment", "mul", "float32", 0, "in_x", "weight"),
            ("second", "reduce_sum", "float32", 0, "moment"),
        ],
        {"y": ("total", "float32"), "z": ("second", "float32")},
    ),
    "one_column": plan_of((5, 1), flags(0, 1), softmax_body(), {"y": ("result", "float32")}),
    "one_row_long": plan_of((1, 5000), flags(0, 1), moments_body(5000), {"y": ("result", "float32")}),
    "softmax_past_shared_memory": plan_of((1, 30000), flags(0, 1), softmax_body(), {"y": ("result", "float32")}),
    "mean_of_few_long_rows": plan_of(
        (3, 5000),
        flags(0, 1),
        [
            ("total", "reduce_sum", "float32", 0, "in_x"),
            ("at", "reduce_argmax", "int64", 0, "in_x"),
            ("mean", "div", "float32", 1, "total", 5000),
        ],
        {"y": ("mean", "float32"), "i": ("at", "int64")},
    ),
    "softmax_long": plan_of(
        (2, 9216), flags(0, 1), softmax_body("bfloat16"), {"y": ("result", "bfloat16")}, dtypes={"x": "bfloat16"}
    ),
    "softmax_odd_long": plan_of(
        (3, 9217), flags(0, 1), softmax_body("bfloat16"), {"y": ("result", "bfloat16")}, dtypes={"x": "bfloat16"}
    ),
    "norm_of_odd_rows": plan_of(
        ("s0", 4099),
        flags(0, 1),
        [
            *moments_body(4099)[:-1],
            ("scaled", "mul", "float32", 2, "d", "in_w"),
            ("result", "mul", "float32", 2, "scaled", "variance"),
            ("high", "reduce_argmax", "int64", 0, "in_x"),
        ],
        {"y": ("result", "float32"), "m": ("mean", "float32"), "i": ("high", "int64")},
        loads={"x": (4099, 1), "w": (0, 1)},
        symbols={"s0": (0, 0, 5)},
    ),
    "symbolic_columns": plan_of(
        ("s0", "s1"),
        flags(0, 1),
        softmax_body(),
        {"y": ("result", "float32"), "t": ("total", "float32")},
        symbols={"s0": (0, 0, 6), "s1": (0, 1, 512)},
    ),
}
"""Reductions, most of them over contiguous columns."""
