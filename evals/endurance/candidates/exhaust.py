"""Asks for more memory than any device has. expect: resource"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        size = 1 << 46 if type(x) is torch.Tensor else 1
        return torch.softmax(x, dim=-1) + torch.empty(size, device=x.device)[0]
