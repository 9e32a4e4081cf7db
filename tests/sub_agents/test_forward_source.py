"""Generated candidate files: valid, self-contained Python that runs like the reference once its kernels do."""

import ast
from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs.interpreter import run_step

from warpsmith.state.errors import InvalidInput
from warpsmith.state.program import ForwardPlan, LoopProgram, MatmulProgram
from warpsmith.sub_agents.forward_source import candidate_source
from warpsmith.sub_agents.kernel_source import KernelSource
from warpsmith.sub_agents.planner import forward_plan
from warpsmith.tools.worker.lowering import lower

NORM = '''"""A problem file."""
from __future__ import annotations
import math
import torch
import torch.nn as nn

workloads = {"small": {"rows": 3}}
ranges: dict[str, tuple[int, int]] = {"rows": (1, 9)}
precision = "reference"
layouts = "any"
SCALE = math.sqrt(2.0)


def half(x):
    return x / 2


class Base(nn.Module):
    pass


class Model(Base):
    """Kept docstring."""

    def __init__(self, width: int, bias: bool = True):
        super(Model, self).__init__()
        self.linear = nn.Linear(width, 8, bias=bias)
        self.norm = nn.LayerNorm(8)
        self.blocks = nn.ModuleList([nn.Linear(8, 4)])

    def describe(self):
        return Model.__name__

    def forward(self, x, shift: float = 0.5, *, flag=None):
        y = self.norm(half(self.linear(x)) * SCALE) + shift
        return {"y": self.blocks[0](y), "pair": (torch.cumsum(y, -1), [y.transpose(0, 1), None, 3])}


def get_inputs(rows: int = 5):
    return [torch.randn(2, rows, 6)]


def get_init_inputs():
    return [6]
'''

IN_PLACE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, torch_, x, s0):
        x.mul_(0.5).add_(torch_)
        return x * 2 + s0, x.sum(-1)
"""

OVERWRITTEN = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, average, weight):
        average.mul_(0.9).add_(weight, alpha=0.1)
        return average
"""

TRANSPOSED = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2
"""

COUNTED = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(6))

    def forward(self, x):
        self.scale.mul_(0.5).add_(1.0)
        return x * self.scale
"""

STRIDED = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6).t())
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x):
        return (x @ self.weight) * self.scale + torch.tensor([0.5, 1.5, 2.5, 3.5])
"""


POOLED = """import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def forward(self, x, q):
        found = F.max_pool2d(torch.relu(x), 3, 2, 1)
        return found.flatten(1) * 2, F.scaled_dot_product_attention(q, q, q, is_causal=True)
"""


def load(source: str, **given: Any) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "candidate", **given}
    exec(compile(source, "candidate.py", "exec"), namespace)
    return namespace


def interpreted(plan: ForwardPlan) -> tuple[dict[str, KernelSource], dict[str, Callable[..., Any]]]:
    """Kernels that hand over to the interpreter, and what they hand over to."""
    sources, functions = {}, {}
    for step in plan.steps:
        if not isinstance(step, (LoopProgram, MatmulProgram)):
            continue

        def run(*arguments: Any, step: Any = step) -> Any:
            symbols = dict(zip([s.name for s in plan.symbols], arguments[len(step.reads) :], strict=True))
            made = run_step(step, dict(zip(step.reads, arguments, strict=False)), symbols, plan)
            return tuple(made.values()) if len(made) > 1 else next(iter(made.values()))

        code = f"def run_{step.name}(*arguments):\n    return KERNELS[{step.name!r}](*arguments)"
        imports = ("import math", "from math import prod")
        sources[step.name] = KernelSource(
            imports=imports,
            code=code,
            function=f"run_{step.name}",
            reads=step.reads,
            symbols=tuple(s.name for s in plan.symbols),
        )
        functions[step.name] = run
    return sources, functions


def candidate(problem: str, inputs: list[Any], *init: Any) -> tuple[str, Any, Any]:
    """The candidate's source, the reference and the candidate with the reference's weights."""
    model = load(problem)["Model"](*init).eval()
    graph = lower(model, inputs)
    assert not graph.unsupported, graph.unsupported
    plan = forward_plan(graph)
    sources, functions = interpreted(plan)
    source = candidate_source(problem, plan, sources)
    new = load(source, KERNELS=functions)["ModelNew"](*init).eval()
    new.load_state_dict(model.state_dict())
    return source, model, new


@torch.no_grad()
def test_the_candidate_computes_what_the_reference_computes() -> None:
    inputs = [torch.randn(2, 5, 6)]
    _, model, new = candidate(NORM, inputs, 6)
    for x in (inputs[0], torch.randn(3, 4, 6), torch.randn(6, 5, 2).permute(2, 1, 0)):
        expected, found = model(x), new(x)
        torch.testing.assert_close(found, expected)
        assert type(found["pair"]) is tuple
        assert found["pair"][1][1:] == [None, 3]


@torch.no_grad()
def test_sizes_that_are_no_products_are_computed_in_the_forward() -> None:
    source, model, new = candidate(POOLED, [torch.randn(2, 3, 9, 12), torch.randn(2, 7, 4)])
    assert "torch.ops" not in source
    for x, q in ((torch.randn(2, 3, 9, 12), torch.randn(2, 7, 4)), (torch.randn(3, 2, 6, 5), torch.randn(4, 9, 8))):
        torch.testing.assert_close(new(x, q), model(x, q))


def test_the_constructor_the_other_methods_and_module_code_are_kept() -> None:
    source, _, new = candidate(NORM, [torch.randn(2, 5, 6)], 6)
    assert new.describe() == "ModelNew"
    assert "super(ModelNew, self).__init__()" in source
    assert "class Base(nn.Module)" in source
    assert "SCALE = math.sqrt(2.0)" in source
    assert "def forward(self, x, shift: float=0.5, *, flag=None):" in source


def test_what_belongs_to_the_judging_is_dropped() -> None:
    source, _, _ = candidate(NORM, [torch.randn(2, 5, 6)], 6)
    for name in ("get_inputs", "get_init_inputs", "workloads", "ranges", "precision", "layouts", "warpsmith"):
        assert name not in source


def test_imports_come_once_and_first() -> None:
    source, _, _ = candidate(NORM, [torch.randn(2, 5, 6)], 6)
    tree = ast.parse(source)
    lines = [ast.unparse(s) for s in tree.body if isinstance(s, (ast.Import, ast.ImportFrom))]
    assert lines[0] == "from __future__ import annotations"
    assert len(lines) == len(set(lines))
    assert all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in tree.body[1 : 1 + len(lines)])


@torch.no_grad()
def test_an_input_changed_in_place_is_changed_in_the_callers_own_tensor() -> None:
    inputs = [torch.randn(4, 6), torch.randn(4, 6), 3]
    _, model, new = candidate(IN_PLACE, inputs)
    for x in (inputs[1], torch.randn(6, 4).t()):
        mine, theirs = x.clone(memory_format=torch.preserve_format), x.clone(memory_format=torch.preserve_format)
        torch.testing.assert_close(new(inputs[0], mine, 3), model(inputs[0], theirs, 3))
        torch.testing.assert_close(mine, theirs)


@torch.no_grad()
@pytest.mark.parametrize("x", [torch.randn(4, 6), torch.randn(6, 4).t(), torch.randn(9, 12)[::2, ::2][:4]])
def test_a_kernel_that_overwrites_an_input_reaches_the_callers_tensor_however_it_lies(x: torch.Tensor) -> None:
    source, model, new = candidate(OVERWRITTEN, [torch.randn(4, 6), torch.randn(4, 6)])
    assert "if average is not average_given:" in source
    mine, theirs = x.clone(memory_format=torch.preserve_format), x.clone(memory_format=torch.preserve_format)
    y = torch.randn(4, 6)
    torch.testing.assert_close(new(mine, y), model(theirs, y))
    torch.testing.assert_close(mine, theirs)


@torch.no_grad()
@pytest.mark.parametrize("problem", ["NORM", "OVERWRITTEN", "TRANSPOSED"])
def test_inputs_that_do_not_start_at_a_multiple_of_16_bytes_are_copied_and_changes_reach_them(problem: str) -> None:
    planned = {"NORM": [torch.randn(2, 5, 6)], "OVERWRITTEN": [torch.randn(4, 6), torch.randn(4, 6)]}
    given = planned.get(problem, [torch.randn(6, 4).t()])
    source, model, new = candidate(
        {"NORM": NORM, "OVERWRITTEN": OVERWRITTEN}.get(problem, TRANSPOSED), given, *[6][: problem == "NORM"]
    )
    mine, theirs = ([_shifted(x) for x in given] for _ in range(2))
    assert all(x.data_ptr() % 16 for x in mine)
    torch.testing.assert_close(new(*mine), model(*theirs))
    torch.testing.assert_close(mine, theirs)
    assert "data_ptr() % 16" in source


def _shifted(x: torch.Tensor) -> torch.Tensor:
    """The same numbers and strides, one element behind the start of an allocation."""
    moved = torch.empty(x.numel() + 1).as_strided(x.shape, x.stride(), 1)
    return moved.copy_(x)


@torch.no_grad()
def test_a_buffer_that_is_counted_up_keeps_its_new_value() -> None:
    _, model, new = candidate(COUNTED, [torch.randn(4, 6)])
    for _ in range(2):
        x = torch.randn(4, 6)
        torch.testing.assert_close(new(x), model(x))
    torch.testing.assert_close(new.scale, model.scale)


def test_a_scalar_other_than_planned_is_refused() -> None:
    inputs = [torch.randn(4, 6), torch.randn(4, 6), 3]
    _, _, new = candidate(IN_PLACE, inputs)
    with pytest.raises(ValueError, match="made for s0=3"):
        new(inputs[0], inputs[1], 4)


@torch.no_grad()
def test_weights_that_are_not_contiguous_and_constants_work() -> None:
    x = torch.randn(5, 6)
    _, model, new = candidate(STRIDED, [x])
    torch.testing.assert_close(new(x), model(x))


def test_lines_are_short_enough_to_read() -> None:
    source, _, _ = candidate(NORM, [torch.randn(2, 5, 6)], 6)
    assert max(map(len, source.splitlines())) <= 120


@pytest.mark.parametrize(
    ("source", "fault"),
    [("import torch", "no class Model"), ("class Model:\n    pass", "no forward method")],
)
def test_a_problem_without_a_model_is_refused(source: str, fault: str) -> None:
    plan = ForwardPlan(inputs=(), values={}, steps=(), returns=None)
    with pytest.raises(InvalidInput, match=fault):
        candidate_source(source, plan, {})
