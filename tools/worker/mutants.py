"""Vets a problem by mutation: outputs that are wrong on purpose must be refused, or the problem cannot tell right from
wrong.

Each mutant is a wrong way to answer: a constant, the input, another draw's output, part of the work, less precision.
It is judged on the same draws and bounds as a candidate, on the problem's smallest workload. One that passes on every
draw makes the problem degenerate: its speedups mean nothing. An operator whose removal changes nothing is only noted,
since it may be legally redundant.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...state.problem import Workload
from . import structure
from .expectation import Expectation, check_leaf, clone_nested, pool

if TYPE_CHECKING:
    from .judge import Judge

_KINDS = ("problem", "normal", "spike", "negative")
_MOST_OPERATORS = 24
_COPIES = ("aten::clone", "aten::_unsafe_view")
"""Operators that change the layout alone: without them nothing can change."""
Answer = Callable[[list[Any]], list[torch.Tensor]]


class _Raised(Exception):
    """The reference does not run on a mutant's inputs, or without one of its operators: no answer at all."""


def surviving(judge: "Judge") -> tuple[list[str], list[str]]:
    """Names of mutants that no draw refuses: those that make the problem degenerate, and removed operators."""
    workload = judge.problem.smallest
    degenerate = [name for name, answer in _mutants(judge, workload) if _passes(judge, workload, answer)]
    redundant = [name for name, answer in _without_operators(judge, workload) if _passes(judge, workload, answer)]
    return degenerate, redundant


def _passes(judge: "Judge", workload: Workload, answer: Answer) -> bool:
    """Whether an answer would be accepted on every draw."""
    for kind in _KINDS:
        weights = "timed" if kind == "problem" else "random"
        expected = judge.expectation(workload, kind, 0, weights)
        inputs = judge.inputs(workload, kind, 0)
        judge.mutant_weights = weights
        try:
            outputs = answer(inputs)
        except _Raised:
            return False
        if not _accepted(outputs, expected):
            return False
    return True


def _accepted(outputs: list[torch.Tensor], expected: Expectation) -> bool:
    leaves = expected.leaves[: len(expected.leaves) - len(expected.mutated)]
    if not leaves:
        # A reference that only changes its inputs: outputs say nothing.
        return False
    if len(outputs) != len(leaves):
        return False
    for actual, leaf in zip(outputs, leaves, strict=True):
        if actual.shape != leaf.shape or actual.dtype != leaf.dtype or not pool([check_leaf(actual, leaf)])[0]:
            return False
    return True


def _run(judge: "Judge", inputs: list[Any]) -> list[torch.Tensor]:
    """The reference's own output under the weights of the draw at hand. Raises _Raised."""
    return structure.flatten(_called(judge.models[judge.mutant_weights], inputs))[1]


def _called(model: torch.nn.Module, inputs: list[Any]) -> Any:
    try:
        return model(*clone_nested(inputs))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise _Raised from error


def _mutants(judge: "Judge", workload: Workload) -> Iterator[tuple[str, Answer]]:
    def of_output(change: Callable[[torch.Tensor], torch.Tensor]) -> Answer:
        return lambda inputs: [change(t) for t in _run(judge, inputs)]

    yield "zeros", of_output(torch.zeros_like)
    yield "mean fill", of_output(_mean_fill)
    yield "first tile only", of_output(_first_eighth)
    yield "doubled", of_output(_doubled)
    yield "input itself", lambda inputs: _input_as_output(judge, inputs)
    yield "another draw's output", lambda _: _run(judge, judge.inputs(workload, "problem", 77))
    for number, value in enumerate(judge.inputs(workload, "problem", 0)):
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 1:
            yield f"half of input {number}", partial(_run_halved, judge, number)
    if _computes_in_fp32(judge, workload) and judge.problem.precision in ("reference", "strict-fp32"):
        yield "bfloat16 inputs", lambda inputs: _run(judge, _rounded(inputs))


def _mean_fill(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point() or tensor.numel() == 1:
        return torch.zeros_like(tensor)  # one element is its own mean
    return torch.full_like(tensor, float(tensor.double().nanmean()) if tensor.numel() else 0.0)


def _first_eighth(tensor: torch.Tensor) -> torch.Tensor:
    changed = tensor.clone().reshape(-1)
    changed[max(1, changed.numel() // 8) :] = 0
    # A single element has no later tile to leave out.
    return changed.reshape(tensor.shape) if tensor.numel() > 1 else torch.zeros_like(tensor)


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    return ~tensor if tensor.dtype == torch.bool else tensor * 2 + (0 if tensor.is_floating_point() else 1)


def _input_as_output(judge: "Judge", inputs: list[Any]) -> list[torch.Tensor]:
    outputs = _run(judge, inputs)
    _, given = structure.flatten(inputs)
    fitting = [next((g for g in given if g.shape == o.shape and g.dtype == o.dtype), None) for o in outputs]
    return [torch.zeros_like(o) if g is None else g for o, g in zip(outputs, fitting, strict=True)]


def _halved(inputs: list[Any], number: int) -> list[Any]:
    """Half of one operand left out: its last elements along the longest dimension are zero."""
    changed = clone_nested(inputs)
    tensor = changed[number]
    dim = max(range(tensor.dim()), key=lambda d: tensor.shape[d]) if tensor.dim() else 0
    dense = tensor.clone()
    dense.narrow(dim, tensor.shape[dim] // 2, tensor.shape[dim] - tensor.shape[dim] // 2).zero_()
    changed[number] = dense
    return list(changed)


def _run_halved(judge: "Judge", number: int, inputs: list[Any]) -> list[torch.Tensor]:
    return _run(judge, _halved(inputs, number))


def _rounded(inputs: Any) -> Any:
    if isinstance(inputs, torch.Tensor):
        return inputs.bfloat16().to(inputs.dtype) if inputs.dtype == torch.float32 else inputs
    return type(inputs)(_rounded(item) for item in inputs) if isinstance(inputs, list | tuple) else inputs


def _computes_in_fp32(judge: "Judge", workload: Workload) -> bool:
    _, tensors = structure.flatten(judge.inputs(workload, "problem", 0))
    outputs = [leaf.dtype for leaf in judge.expectation(workload, "problem", 0, "timed").leaves]
    floating = [t.dtype for t in tensors if t.is_floating_point()]
    return bool(floating) and set(floating) == {torch.float32} and torch.float32 in outputs


class _Skip(TorchDispatchMode):
    """Runs all operators but one, whose first tensor argument of the result's shape takes its place."""

    def __init__(self, skipped: int) -> None:
        super().__init__()
        self.skipped = skipped
        self.seen = 0
        self.name = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if (
            not isinstance(result, torch.Tensor)
            or not result.is_floating_point()
            or func.is_view
            or func.name() in _COPIES
        ):
            return result
        stand_in = next(
            (a for a in args if isinstance(a, torch.Tensor) and a.shape == result.shape and a.dtype == result.dtype),
            None,
        )
        if stand_in is None or stand_in is result:
            return result
        self.seen += 1
        if self.seen - 1 == self.skipped:
            self.name = func.name().removeprefix("aten::").split(".")[0]
            # In the result's layout: what views it later was written for that one.
            layout = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=result.device)
            return layout.copy_(stand_in)
        return result


def _without_operators(judge: "Judge", workload: Workload) -> Iterator[tuple[str, Answer]]:
    model, inputs = judge.models["timed"], judge.inputs(workload, "problem", 0)
    for number in range(_MOST_OPERATORS):
        with _Skip(number) as mode, suppress(_Raised):
            _called(model, inputs)
        if not mode.name:
            return

        def answer(given: list[Any], skipped: int = number) -> list[torch.Tensor]:
            with _Skip(skipped):
                return _run(judge, given)

        yield f"{mode.name} (operator {number})", answer
