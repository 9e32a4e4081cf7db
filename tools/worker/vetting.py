"""Whether a problem can be judged at all."""

from typing import TYPE_CHECKING, Any

import torch

from ...state.problem import Workload
from . import mutants, repeatability, structure
from .buffers import dtype_name
from .expectation import clone_nested, same_values
from .problem_module import DTYPES, first_line

if TYPE_CHECKING:
    from .judge import Judge


def vet(judge: "Judge") -> list[str]:
    """Raises InvalidProblem for references that are random, NaN-only or constant; returns notes."""
    workload = judge.problem.smallest if judge.device.type == "cpu" else judge.problem.primary
    model, fault = judge.models["timed"], judge.module.fault
    first, second = (judge.inputs(workload, "problem", n) for n in (0, 1))
    _hold_draws(judge, first, second, judge.inputs(workload, "problem", 0))
    notes = []
    if judge.draws_are_fixed(workload):
        notes.append("get_inputs gives the same numbers under every seed; timed calls get them in another order")
        second = judge.inputs(workload, "normal", 0)
    description, tensors = _first_answer(judge, workload, first)
    _, other = structure.flatten(model(*clone_nested(second)))
    again_description, again = structure.flatten(model(*clone_nested(first)))
    if not structure.same(description, again_description):
        raise fault("the reference gives another structure on the same inputs")
    if not all(same_values(a, b) for a, b in zip(tensors, again, strict=True)):
        repeatability.hold_repeatable(judge, first, second, [tensors, again])
        notes.append("the reference is not bitwise reproducible on the same inputs")
    unchanged = all(a.shape == b.shape and same_values(a, b) for a, b in zip(tensors, other, strict=True))
    if unchanged and not _alike(first, second):
        raise fault("the reference's output is constant: it does not depend on its inputs")
    _allow_unseen_sizes(judge)
    degenerate, redundant = mutants.surviving(judge)
    notes += [f"degenerate: the mutant '{name}' passes every draw" for name in degenerate]
    notes += [f"without {name} nothing changes" for name in redundant]
    return notes


def _first_answer(judge: "Judge", workload: Workload, inputs: list[Any]) -> tuple[Any, list[torch.Tensor]]:
    """Structure and tensors of what forward returns. Raises InvalidProblem where nothing could be compared with it."""
    fault = judge.module.fault
    before = repeatability.generator_states(judge.device)
    try:
        output = judge.models["timed"](*clone_nested(inputs))
    except Exception as error:
        raise judge.module.raised("forward", error) from error
    if before != repeatability.generator_states(judge.device):
        raise fault(repeatability.drawing(judge.models["timed"]))
    try:
        description, tensors = structure.flatten(output)
    except structure.UnsupportedLeaf as error:
        raise fault(f"forward returns {error}") from error
    if not tensors:
        raise fault("forward returns no tensor")
    for tensor in tensors:
        if dtype_name(tensor.dtype) not in DTYPES:
            raise fault(f"forward returns dtype {dtype_name(tensor.dtype)}, which is not supported")
    if not any(t.numel() for t in tensors):
        raise fault(f"forward's result is empty at workload {workload.name!r}: there is no element to compare")
    floating = [t for t in tensors if t.is_floating_point() and t.numel()]
    if floating and all(bool(t.isnan().all()) for t in floating):
        raise fault("the reference's output is NaN everywhere")
    return description, tensors


def _alike(first: list[Any], second: list[Any]) -> bool:
    """Whether two draws hold the same numbers; without a tensor there is nothing that could differ."""
    some, others = (structure.flatten(inputs)[1] for inputs in (first, second))
    return bool(some) and all(same_values(a, b) for a, b in zip(some, others, strict=True))


def _hold_draws(judge: "Judge", first: list[Any], second: list[Any], again: list[Any]) -> None:
    """One seed must give one draw, and draws differ in the values of tensors only. Raises InvalidProblem."""
    (description, tensors), (other, others) = structure.flatten(first), structure.flatten(second)
    layouts = [[(t.shape, t.dtype, t.stride()) for t in some] for some in (tensors, others)]
    if not structure.same(description, other) or layouts[0] != layouts[1]:
        raise judge.module.fault("get_inputs gives other numbers or shapes each time; only values in tensors may vary")
    repeated = structure.flatten(again)[1]
    if not all(same_values(a, b) for a, b in zip(tensors, repeated, strict=True)):
        raise judge.module.fault("get_inputs draws numbers that no seed of torch, numpy or random fixes")


def _allow_unseen_sizes(judge: "Judge") -> None:
    """The reference must answer at the sizes that candidates are judged on unseen. Raises InvalidProblem."""
    near = judge.neighbour()
    others = judge.hidden_workloads() if judge.device.type == "cuda" else []
    for workload in [*([near] if near else []), *others]:
        try:
            judge.models["timed"](*judge.inputs(workload, "problem", 0))
        except torch.OutOfMemoryError:
            continue
        except Exception as error:
            sizes = ", ".join(f"{name}={workload.arguments[name]}" for name in judge.problem.ranges)
            text = f"forward raises at {sizes}, which ranges allow: {first_line(error)}; narrow the ranges"
            raise judge.module.fault(text) from error
