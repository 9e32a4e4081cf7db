"""Ends its process by a signal. expect: runtime_error"""

import ctypes

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        if type(x) is torch.Tensor:
            ctypes.string_at(0)
        return torch.softmax(x, dim=-1)
