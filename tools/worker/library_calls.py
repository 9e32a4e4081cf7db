"""What a candidate leaves to PyTorch, seen while its forward runs on fake tensors."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_ONLY_ALLOCATE = (
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::new_empty_strided",
)


class LibraryCalls(TorchDispatchMode):
    """Notes every operator that moves elements, with the bytes of its tensors; views and allocations move none."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        if not func.is_view and name not in _ONLY_ALLOCATE and not name.startswith("prim::"):
            tensors = {id(t): t for t in tree_leaves((args, kwargs, result)) if isinstance(t, torch.Tensor)}
            moved = sum(t.numel() * t.element_size() for t in tensors.values())
            if moved:
                self.calls.append({"op": name.replace("::", "."), "tensor_bytes": moved})
        return result
