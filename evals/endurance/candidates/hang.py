"""Never answers. expect: timeout"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        while type(x) is torch.Tensor:
            pass
        return torch.softmax(x, dim=-1)
