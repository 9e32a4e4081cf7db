"""The float64 oracle: the reference run with every floating tensor, factory and cast widened to float64.

`module.double()` would break on casts and factories inside forward, so a dispatch mode widens them one operator at a
time. What comes out is the reference's mathematics on the given (already rounded) inputs, without its rounding.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .problem_module import first_line

_NARROW = (torch.float16, torch.bfloat16, torch.float32)
_INDEX_OPS = ("aten::argmax", "aten::argmin", "aten::max.dim", "aten::min.dim")


class NoAnswer(Exception):
    """What a reference should answer cannot be said: the fault in one line, without the file's name."""


class Chosen:
    """Where an index tensor of the output came from: the values it indexes and the dimension."""

    def __init__(self, index: torch.Tensor, values: torch.Tensor, dim: int | None, keepdim: bool) -> None:
        self.index = index
        """Held so that no later tensor gets its memory, by which it is known."""
        self.values = values
        self.dim = dim
        self.keepdim = keepdim

    def at(self, index: torch.Tensor) -> torch.Tensor:
        """The value at each index; an index out of range gives NaN."""
        values = self.values
        if self.dim is None:
            flat = values.reshape(-1)
            picked = flat[index.clamp(0, flat.numel() - 1).reshape(-1)].reshape(index.shape)
            return torch.where((index >= 0) & (index < flat.numel()), picked, torch.nan)
        wide = index if self.keepdim else index.unsqueeze(self.dim)
        size = values.shape[self.dim]
        picked = values.gather(self.dim, wide.clamp(0, size - 1))
        picked = torch.where((wide >= 0) & (wide < size), picked, torch.nan)
        return picked if self.keepdim else picked.squeeze(self.dim)


class Widen(TorchDispatchMode):
    """Runs every operator in float64. `chosen` maps an index output's storage to where it came from."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen: dict[int, Chosen] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        wide_args = [_widen(a) for a in args]
        wide_kwargs = {k: _widen(v) for k, v in (kwargs or {}).items()}
        result = func(*wide_args, **wide_kwargs)
        name = func.name()
        if name in _INDEX_OPS:
            self._remember(name, result, wide_args, wide_kwargs)
        # A factory without a dtype makes float32; it must be wide before it is written to in place.
        return _widen(result)

    def _remember(self, name: str, result: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        index = result[1] if isinstance(result, tuple | list) else result
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        keepdim = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        values = args[0] if args[0].is_floating_point() else args[0].double()
        self.chosen[index.untyped_storage().data_ptr()] = Chosen(index, values, dim, bool(keepdim))


def _widen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype in _NARROW else value
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _NARROW else value
    if isinstance(value, list | tuple):
        return type(value)(_widen(item) for item in value)
    return value


def run(model: torch.nn.Module, arguments: list[Any]) -> tuple[Any, dict[int, Chosen], list[Any]]:
    """The reference's result in float64, the origins of index outputs, and the arguments after the call.

    The caller's arguments and the model's weights stay as they are. Raises NoAnswer.
    """
    wide = [_copy_wide(a) for a in arguments]
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    weights = {name: _copy_wide(tensor) for name, tensor in state.items()}
    mode = Widen()
    try:
        with torch.no_grad(), mode:
            result = torch.func.functional_call(model, weights, tuple(wide))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        text = f"in float64 and without gradients, as its result is checked, forward raises {first_line(error)}"
        raise NoAnswer(text) from error
    return result, mode.chosen, wide


def hold_shapes(outputs: list[torch.Tensor], exact: list[torch.Tensor]) -> None:
    """The reference's tensors and the oracle's must be alike, or there is nothing to compare. Raises NoAnswer."""
    if len(outputs) != len(exact):
        raise NoAnswer(f"forward returns {len(outputs)} tensors, and {len(exact)} in float64")
    for output, wide in zip(outputs, exact, strict=True):
        if output.shape != wide.shape:
            text = f"the shape of forward's result hangs on rounding: {list(output.shape)}, or {list(wide.shape)}"
            raise NoAnswer(f"{text} in float64; keep all elements, and set to zero those that are left out")


def _copy_wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype in _NARROW else value.clone()
    if isinstance(value, list | tuple):
        return type(value)(_copy_wide(item) for item in value)
    if isinstance(value, dict):
        return {key: _copy_wide(item) for key, item in value.items()}
    return value
