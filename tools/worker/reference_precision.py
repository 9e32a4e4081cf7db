"""Which precision the reference itself computes in: a candidate may be as coarse, on every workload.

PyTorch lets convolutions use TF32 by default and picks the algorithm by shape. Whether TF32 is in play shows where it
is switched off: the output moves by more than float32 could.
"""

from typing import Any

import torch

from ...state.problem import Precision
from . import compare, structure
from .expectation import clone_nested

_TOLD_APART = 2.0**-17
"""Above what another order of float32 additions moves an output by, far below TF32."""


def permitted_roundoff(policy: Precision, model: torch.nn.Module, inputs: list[Any]) -> float:
    """Unit roundoff that inputs of a product may be rounded at, under a problem's precision policy."""
    roundoff = compare.POLICY_ROUNDOFF[policy]
    if policy != "reference" or not uses_tf32(model, inputs):
        return roundoff
    return compare.POLICY_ROUNDOFF["tf32"]


def uses_tf32(model: torch.nn.Module, inputs: list[Any]) -> bool:
    """Whether the reference's output on these inputs depends on the flags that allow TF32."""
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn)
    allowed = [switch.allow_tf32 for switch in switches]
    if not any(allowed) or not any(t.is_cuda for t in structure.flatten(inputs)[1]):
        return False
    _, as_is = structure.flatten(model(*clone_nested(inputs)))
    try:
        for switch in switches:
            switch.allow_tf32 = False
        _, exact = structure.flatten(model(*clone_nested(inputs)))
    finally:
        for switch, before in zip(switches, allowed, strict=True):
            switch.allow_tf32 = before
    return any(_apart(a, b) for a, b in zip(as_is, exact, strict=True) if a.is_floating_point() and a.numel())


def _apart(left: torch.Tensor, right: torch.Tensor) -> bool:
    difference = torch.linalg.vector_norm((left.float() - right.float()).nan_to_num())
    return bool(difference > _TOLD_APART * torch.linalg.vector_norm(right.float().nan_to_num()))
