"""Two kernels in one file: each keeps what is its own, and the size of an input chooses."""

import ast
from typing import Any

import pytest
import torch

from warpsmith.state.candidate import Candidate, make_candidate
from warpsmith.sub_agents.two_in_one import SizeRule, two_in_one

FILE = '''"""A kernel."""

import torch
from torch import nn
{imports}

FACTOR = {factor}


def doubled(x):  # the same in both
    return 2 * x


def kernel(x):
    # {note}
    return doubled(x) * FACTOR


def launch(x):
    return kernel(x)


class ModelNew(nn.Module):
    """Has a weight."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.ones(n))

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        # {note}
        return launch(x) * self.kernel * scale
'''
RULE = SizeRule(argument=0, elements=100)


def candidate(factor: int, note: str, imports: str = "", **changes: str) -> Candidate:
    source = FILE.format(factor=factor, note=note, imports=imports)
    for old, new in changes.items():
        source = source.replace(old, new)
    return make_candidate(source, "triton", origin="template")


def loaded(made: Candidate) -> Any:
    space: dict[str, Any] = {}
    exec(compile(made.source, "best.py", "exec"), space)
    return space


def test_the_size_of_an_input_chooses_and_nothing_else_changes() -> None:
    made = two_in_one(candidate(3, "large"), candidate(5, "small", "import math"), RULE)
    assert made is not None
    space = loaded(made)
    model = space["ModelNew"](1)
    assert float(model(torch.ones(100))[0].detach()) == 6.0
    assert float(model(torch.ones(99), scale=0.5)[0].detach()) == 5.0
    assert [name for name, _ in model.named_parameters()] == ["kernel"]
    assert space["LARGE_ELEMENTS"] == 100
    assert {"torch", "nn", "math"} <= set(space)


def test_what_both_have_is_there_once_and_what_uses_something_else_is_not_shared() -> None:
    """The launchers read the same and launch different kernels."""
    made = two_in_one(candidate(3, "large"), candidate(5, "small"), RULE)
    assert made is not None
    defined = [node.name for node in ast.parse(made.source).body if isinstance(node, ast.FunctionDef)]
    assert defined == ["doubled", "kernel", "launch", "kernel_for_small", "launch_for_small"]
    assert made.source.count("# large") == 2
    assert made.source.count("# small") == 2


def test_what_is_defined_under_a_condition_is_kept_apart_too() -> None:
    known = "if True:\n    def doubled(x):\n        return {times} * x\n\n\ndef unused(x):\n    return 2 * x\n"
    old = "def doubled(x):  # the same in both\n    return 2 * x\n"
    changes = [{old: known.format(times=times)} for times in (2, 7)]
    made = two_in_one(candidate(1, "large", **changes[0]), candidate(1, "small", **changes[1]), RULE)
    assert made is not None
    model = loaded(made)["ModelNew"](1)
    assert [float(model(torch.ones(n))[0].detach()) for n in (100, 99)] == [2.0, 7.0]


def test_the_candidate_says_what_it_is_made_of() -> None:
    large, small = candidate(3, "large"), candidate(5, "small")
    made = two_in_one(large, small, RULE)
    assert made is not None
    assert (made.parent, made.template, made.language, made.origin) == (large.id, "two_in_one", "triton", "template")
    assert large.id[:6] in made.note
    assert small.id[:6] in made.note
    mixed = two_in_one(large.model_copy(update={"language": "cuda"}), small, RULE)
    assert mixed is not None
    assert mixed.language == "cuda"


def test_the_condition_reads_an_input_by_its_own_name() -> None:
    made = two_in_one(candidate(3, "large"), candidate(5, "small"), RULE)
    assert made is not None
    assert "if x.numel() >= LARGE_ELEMENTS:" in made.source


@pytest.mark.parametrize(
    "changes",
    [
        {"torch.ones(n)": "torch.zeros(n)"},  # other members
        {"(self, x: torch.Tensor, *": "(self, y: torch.Tensor, *"},  # other arguments
        {"class ModelNew(nn.Module)": "class Other(nn.Module)"},
        {"def forward(self, x: torch.Tensor, *, scale: float = 1.0)": "def forward(self, x, *, scale=1.0, **rest)"},
        {"FACTOR = 5": "LARGE_ELEMENTS = 5\nFACTOR = 5"},
        {"return doubled(x) * FACTOR": "return ModelNew"},
        {"import torch\n": "import torch (\n"},
    ],
)
def test_files_that_do_not_fit_together_are_left_alone(changes: dict[str, str]) -> None:
    assert two_in_one(candidate(3, "large"), candidate(5, "small", **changes), RULE) is None


def test_a_position_that_forward_does_not_have_is_left_alone() -> None:
    assert two_in_one(candidate(3, "a"), candidate(5, "b"), SizeRule(argument=1, elements=9)) is None
