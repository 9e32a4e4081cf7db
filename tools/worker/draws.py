"""Input draws: what values a workload's tensors get. Seeds come from the judge and are never shown to a candidate.

The battery exists because inputs in [0, 1) hide faults: dropped terms, TF32, a forgotten `other` in a masked maximum,
half of a reduction left out. Each kind redraws the floating inputs; integers, masks and scalars come from the
problem's own `get_inputs`, whose domain only the problem knows.
"""

import os
import random
import sys
from typing import Any

import torch

from . import structure

KINDS = ("problem", "normal", "large", "tiny", "negative", "spike", "integers")
ROLLED = "rolled"
"""The problem's own numbers, each at another place: for problems whose `get_inputs` gives the same every time."""
_LARGE = {torch.float16: 16.0}
_TINY = 1e-3


def fresh_seed() -> int:
    """From the operating system: judge and candidate were forked from one process and share generator states."""
    return int.from_bytes(os.urandom(7), "little")


def seed_all(rng_seed: int, device: torch.device) -> None:
    """`torch.manual_seed` for the CPU and one device, and the generators that Python and NumPy share.

    PyTorch's own formats a stack trace for every accelerator that is not there: two milliseconds a draw.
    """
    random.seed(rng_seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(rng_seed % (1 << 32))
    torch.default_generator.manual_seed(rng_seed)
    if device.type == "cuda":
        torch.cuda.init()  # Before it there are no generators; afterwards it does nothing.
        torch.cuda.default_generators[torch.cuda.current_device()].manual_seed(rng_seed)


def fill(tensor: torch.Tensor, kind: str, generator: torch.Generator) -> None:
    """Overwrites a floating tensor in place with one draw of a kind other than `problem`."""
    dense = densest(tensor)
    if kind == ROLLED:
        by = int(torch.randint(0, max(1, dense.numel()), (1,), device=dense.device, generator=generator))
        dense.copy_(dense.reshape(-1).roll(by).reshape(dense.shape))
        return
    if kind == "integers":
        drawn = torch.randint(-4, 5, dense.shape, device=dense.device, generator=generator)
        dense.copy_(drawn)
        return
    dense.normal_(generator=generator)
    if kind == "large":
        dense.mul_(_LARGE.get(tensor.dtype, 100.0))
    elif kind == "tiny":
        dense.mul_(_TINY)
    elif kind == "negative":
        dense.abs_().neg_().sub_(1.0)
    elif kind == "spike" and dense.numel():
        flat = dense.reshape(-1) if dense.is_contiguous() else None
        place = torch.randint(0, dense.numel(), (1,), device=dense.device, generator=generator)
        if flat is not None:
            flat[place] = 1000.0
        else:
            dense[tuple(int(i[0]) for i in torch.unravel_index(place, dense.shape))] = 1000.0


def densest(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with expanded dimensions cut to one element, so that writing in place is defined."""
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def draw(module: Any, arguments: dict[str, Any], kind: str, rng_seed: int, device: torch.device) -> list[Any]:
    """One draw of a workload's inputs: the problem's own values, floating tensors redrawn unless kind is `problem`."""
    values: list[Any] = module.inputs(arguments, device, rng_seed)
    if kind == "problem":
        return values
    generator = torch.Generator(device=device).manual_seed(rng_seed)
    _, tensors = structure.flatten(values)
    for tensor in tensors:
        if tensor.is_floating_point():
            fill(tensor, kind, generator)
    return values


def randomise_weights(model: torch.nn.Module, rng_seed: int) -> None:
    """Moves every weight off its initial value, so that a term that starts as 1 or 0 cannot be dropped unseen.

    Running variances stay positive; counters stay.
    """
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            generator = torch.Generator(device=tensor.device).manual_seed(rng_seed)
            noise = torch.empty_like(tensor).normal_(generator=generator)
            scale = float(tensor.float().std()) if tensor.numel() > 1 else 0.0
            tensor.add_(noise, alpha=0.5 * scale if scale > 1e-12 else 0.25)
            if name.endswith(("running_var", "var")):
                tensor.abs_().add_(0.1)
