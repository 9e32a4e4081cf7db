"""One AdamW update of a flat parameter, float32: four tensors in, three out."""

import torch
from torch import nn

ranges = {"parameters": (1, 1 << 27)}
workloads = {"odd": {"parameters": 7654321}}
checks = {"small": {"parameters": 6000}}


class Model(nn.Module):
    """Returns the new parameter, first moment and second moment after `step` updates."""

    def __init__(self, learning_rate: float, beta1: float, beta2: float, decay: float, step: int) -> None:
        super().__init__()
        self.learning_rate, self.beta1, self.beta2, self.decay = learning_rate, beta1, beta2, decay
        self.correction1, self.correction2 = 1 - beta1**step, 1 - beta2**step

    def forward(
        self, parameter: torch.Tensor, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        first = self.beta1 * first + (1 - self.beta1) * gradient
        second = self.beta2 * second + (1 - self.beta2) * gradient * gradient
        update = (first / self.correction1) / ((second / self.correction2).sqrt() + 1e-8)
        parameter = parameter * (1 - self.learning_rate * self.decay) - self.learning_rate * update
        return parameter, first, second


def get_inputs(parameters: int = 48_000_000) -> list[torch.Tensor]:
    second = torch.randn(parameters).square()
    return [torch.randn(parameters), torch.randn(parameters), torch.randn(parameters), second]


def get_init_inputs() -> list[float]:
    return [1e-2, 0.9, 0.95, 0.1, 10]
