"""Holds candidates to what is expected of a reference, as the judge does, on one draw or over many seeds."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from warpsmith.tools.worker import compare, structure
from warpsmith.tools.worker.expectation import Finding, check_leaf, clone_nested, expect, pool

FP32 = compare.POLICY_ROUNDOFF["reference"]
SEEDS = range(200)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def drawn(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def findings(reference: Any, candidate: Callable[..., Any], inputs: list[Any]) -> list[Finding]:
    """One finding an output tensor."""
    model = reference if isinstance(reference, nn.Module) else Function(reference)
    expected = expect(model, inputs, FP32)
    used = clone_nested(inputs)
    _, delivered = structure.flatten(candidate(*used))
    return [check_leaf(got, leaf) for got, leaf in zip(delivered, expected.leaves, strict=True)]


def passes(reference: Any, candidate: Callable[..., Any], inputs: list[Any]) -> bool:
    return all(pool([finding])[0] for finding in findings(reference, candidate, inputs))


def refusals(reference: Any, honest: dict[str, Callable[..., Any]], draw: Callable[[int], list[Any]]) -> list[Any]:
    """Honest variants that are refused, with the seed, over all seeds. The expectation is made once a seed."""
    found = []
    for seed in SEEDS:
        inputs = draw(seed)
        (leaf,) = expect(Function(reference), inputs, FP32).leaves
        found += [(name, seed) for name, variant in honest.items() if not pool([check_leaf(variant(*inputs), leaf)])[0]]
    return found
