"""Whether a problem can be judged at all."""

from typing import TYPE_CHECKING, Any

import torch

from . import mutants, structure
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
    before = _generator_states(judge.device)
    try:
        output = model(*clone_nested(first))
    except Exception as error:
        raise fault(f"forward raises {first_line(error)}") from error
    if any(not torch.equal(a, b) for a, b in zip(before, _generator_states(judge.device), strict=True)):
        raise fault("the reference draws random numbers; a random reference cannot be judged")
    try:
        description, tensors = structure.flatten(output)
    except structure.UnsupportedLeaf as error:
        raise fault(f"forward returns {error}") from error
    if not tensors:
        raise fault("forward returns no tensor")
    for tensor in tensors:
        if dtype_name(tensor.dtype) not in DTYPES:
            raise fault(f"forward returns dtype {dtype_name(tensor.dtype)}, which is not supported")
    floating = [t for t in tensors if t.is_floating_point()]
    if floating and all(bool(t.isnan().all()) for t in floating if t.numel()):
        raise fault("the reference's output is NaN everywhere")
    again_description, again = structure.flatten(model(*clone_nested(first)))
    if not structure.same(description, again_description):
        raise fault("the reference gives another structure on the same inputs")
    notes = []
    if not all(same_values(a, b) for a, b in zip(tensors, again, strict=True)):
        notes.append("the reference is not bitwise reproducible on the same inputs")
    _, other = structure.flatten(model(*clone_nested(second)))
    if all(a.shape == b.shape and same_values(a, b) for a, b in zip(tensors, other, strict=True)):
        raise fault("the reference's output is constant: it does not depend on its inputs")
    _allow_unseen_sizes(judge)
    degenerate, redundant = mutants.surviving(judge)
    notes += [f"degenerate: the mutant '{name}' passes every draw" for name in degenerate]
    notes += [f"without {name} nothing changes" for name in redundant]
    return notes


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


def _generator_states(device: torch.device) -> list[torch.Tensor]:
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return states
