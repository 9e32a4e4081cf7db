"""PyTorch's flags for float32 products, as a problem's precision policy asks: the same for reference and candidate."""

import torch

from ...state.problem import Precision

OF_POLICY: dict[Precision, bool | None] = {"reference": None, "strict-fp32": False, "tf32": True, "bf16": True}
"""Whether TF32 is allowed; None leaves PyTorch's defaults."""


def set_for(policy: Precision) -> dict[str, bool]:
    """Sets the flags and returns what is in force."""
    wanted = OF_POLICY[policy]
    if wanted is not None:
        set_to({"matmul_tf32": wanted, "cudnn_tf32": wanted})
    return {
        "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
    }


def set_to(flags: dict[str, bool]) -> None:
    """Sets what another process has in force."""
    torch.backends.cuda.matmul.allow_tf32 = flags["matmul_tf32"]
    torch.backends.cudnn.allow_tf32 = flags["cudnn_tf32"]
