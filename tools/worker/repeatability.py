"""Whether a reference answers the same each time: what it draws, what it keeps between calls, and how far it strays."""

import pickle
import random
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from . import compare, structure
from .expectation import clone_nested, same_values

if TYPE_CHECKING:
    from .judge import Judge

_STRAYING = 2.0**-10
"""Share of an output that atomics and other orders of additions do not come to."""
_STRAYING_ROUNDINGS = 8.0


def generator_states(device: torch.device) -> list[Any]:
    """Of the generators that forward may draw from without saying so: torch's, Python's and NumPy's."""
    states: list[Any] = [torch.get_rng_state().tolist(), random.getstate()]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        states.append(pickle.dumps(numpy.random.get_state()))
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device).tolist())
    return states


def drawing(model: nn.Module) -> str:
    """What to tell of a reference that draws random numbers: the dropout that is on, if there is one."""
    active = [name or type(module).__name__ for name, module in model.named_modules() if _drops(module)]
    if not active:
        return "the reference draws random numbers; a random reference cannot be judged"
    more = f" and {len(active) - 1} more" if len(active) > 1 else ""
    return (
        f"the reference draws random numbers: dropout is on in {active[0]}{more};"
        " call self.eval() at the end of Model's constructor, or leave dropout out"
    )


def _drops(module: nn.Module) -> bool:
    rate = module.p if isinstance(module, nn.modules.dropout._DropoutNd) else getattr(module, "dropout", 0)
    return module.training and isinstance(rate, int | float) and rate > 0


def hold_repeatable(judge: "Judge", inputs: list[Any], others: list[Any], answers: list[list[torch.Tensor]]) -> None:
    """Holds two answers to the same inputs that differ against what rounding may do. Raises InvalidProblem."""
    _hold_state(judge, inputs, others)
    for once, again in zip(*answers, strict=True):
        if not once.is_floating_point():
            continue
        if once.shape == again.shape:
            apart = compare.distance(again, once)
            share = max(_STRAYING, _STRAYING_ROUNDINGS * compare.UNIT_ROUNDOFF[once.dtype])
            if not apart.misplaced and apart.rms_error <= share * apart.rms_value:
                continue
        text = "the reference answers the same inputs otherwise each time, by more than rounding; drop what is random"
        raise judge.module.fault(text)


def _hold_state(judge: "Judge", inputs: list[Any], others: list[Any]) -> None:
    """What is kept between calls must not reach the output: of candidates and reference each is called at other times,
    and as often as the harness likes. Raises InvalidProblem.
    """
    if not _room_for_two(judge):
        return
    called, fresh = (judge.module.model(judge.device, judge.model_seed) for _ in range(2))
    first, _, later = (_answer(called, each) for each in (inputs, others, inputs))
    if not _same(first, _answer(fresh, inputs)) or _same(first, later):
        return
    names = ", ".join(_changed(fresh, called)) or "something"
    raise judge.module.fault(
        f"what forward returns hangs on the calls before it, which change {names}; compute it from inputs and weights"
        " alone, or call self.eval() at the end of Model's constructor where that keeps it"
    )


def _room_for_two(judge: "Judge") -> bool:
    """Whether two more models fit. Where they do not, what strays by more than rounding is still refused."""
    if judge.device.type != "cuda":
        return True
    free_bytes, _ = torch.cuda.mem_get_info(judge.device)
    return 4 * sum(tensor.nbytes for tensor in judge.models["timed"].state_dict().values()) < free_bytes


def _answer(model: nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    return structure.flatten(model(*clone_nested(inputs)))[1]


def _same(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(some) == len(others) and all(same_values(a, b) for a, b in zip(some, others, strict=True))


def _changed(fresh: nn.Module, called: nn.Module) -> list[str]:
    """Names of what differs after more calls: buffers, numbers, and containers of another length."""
    buffers = dict(called.named_buffers())
    names = [name for name, each in fresh.named_buffers() if name in buffers and not torch.equal(each, buffers[name])]
    for (place, before), (_, after) in zip(fresh.named_modules(), called.named_modules(), strict=False):
        for name, value in vars(before).items():
            if not name.startswith("_") and _size(value) != _size(vars(after).get(name)):
                names.append(f"{place}.{name}" if place else name)
    return names


def _size(value: Any) -> Any:
    if isinstance(value, list | tuple | dict | set):
        return len(value)
    return value if isinstance(value, bool | int | float | str) else None
