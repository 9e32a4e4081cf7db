"""Nested inputs and outputs (tuples, lists, dicts, None, numbers) with tensors numbered at the leaves."""

from typing import Any

import torch

_SCALARS = (bool, int, float, str, type(None))


class UnsupportedLeaf(TypeError):
    """A value that is neither a tensor nor a plain literal."""


def flatten(value: Any) -> tuple[Any, list[torch.Tensor]]:
    """Splits a nested value into a JSON description and its tensors in order.

    The description keeps the kind of every container and scalar: `(1, [2.0])` and `[1, (2,)]` differ.
    Raises UnsupportedLeaf.
    """
    tensors: list[torch.Tensor] = []
    return _describe(value, tensors), tensors


def _describe(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, _SCALARS):
        return {"literal": value, "type": type(value).__name__}
    sequence = tuple if isinstance(value, tuple) else list
    if isinstance(value, sequence) and type(value).__iter__ is not sequence.__iter__:
        # It would compute its items when they are read, after the clock.
        raise UnsupportedLeaf(f"{type(value).__name__} changes how a {sequence.__name__} is read")
    if isinstance(value, dict):
        return {"dict": [[_describe(k, tensors), _describe(v, tensors)] for k, v in value.items()]}
    if isinstance(value, tuple | list):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_describe(item, tensors) for item in value]}
    raise UnsupportedLeaf(f"{type(value).__name__} is neither a tensor nor a plain value")


def unflatten(description: Any, tensors: list[torch.Tensor]) -> Any:
    """The inverse of `flatten`."""
    if "tensor" in description:
        return tensors[description["tensor"]]
    if "dtype" in description:
        return getattr(torch, description["dtype"])
    if "literal" in description:
        return description["literal"]
    if "dict" in description:
        return {unflatten(k, tensors): unflatten(v, tensors) for k, v in description["dict"]}
    if "list" in description:
        return [unflatten(item, tensors) for item in description["list"]]
    return tuple(unflatten(item, tensors) for item in description["tuple"])


def same(left: Any, right: Any) -> bool:
    """Whether two descriptions agree; float literals to a relative 1e-6 (numbers that forward computed)."""
    if isinstance(left, dict) and isinstance(right, dict):
        if left.get("type") == "float" and right.get("type") == "float":
            a, b = left.get("literal"), right.get("literal")
            if not isinstance(a, float) or not isinstance(b, float):
                return False
            return a == b or (a != a and b != b) or abs(a - b) <= 1e-6 * max(abs(a), abs(b))
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and bool(left == right)
