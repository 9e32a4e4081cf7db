"""Right, but keeps memory of every call and leaves a process behind. expect: passed"""

import subprocess

import torch
from torch import nn

KEPT = []


class ModelNew(nn.Module):
    def forward(self, x):
        if not KEPT:
            KEPT.append(subprocess.Popen(["sleep", "3600"]))
        if type(x) is torch.Tensor and len(KEPT) < 64:
            KEPT.append(torch.ones(1 << 20, device=x.device))
        return torch.softmax(x, dim=-1)
