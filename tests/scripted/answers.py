"""What a model says in the scripted world: kernels that the scripted harness judges by their slots, and tool calls."""

from typing import Any

from warpsmith.sub_agents.llm.written import WrittenAnswer
from warpsmith.sub_agents.models.protocol import Role, ToolCall

REFERENCE = '''import torch
from torch import nn


class Model(nn.Module):
    """y = running sum of x."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, dim=1) * self.scale
'''


def kernel_source(tile: int, fate: str = "", comment: str = "") -> str:
    """A file that the scripted harness understands, with the reference's constructor and forward."""
    return f'''{comment}
import torch
from torch import nn


class ModelNew(nn.Module):
    language = 'triton'
    slots = {{"tile": {tile}, "stages": 1, "fate": "{fate}"}}

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return run(x, self.scale)


def run(x, scale):
    return x
'''.lstrip("\n")


def said(tile: int, fate: str = "", role: Role = "triton_writer", idea: str = "One pass.") -> WrittenAnswer:
    """An answer with a kernel in it."""
    return WrittenAnswer(role=role, text=f"{idea}\n\n```python\n{kernel_source(tile, fate)}```\n")


def called(name: str, tile: int = 64, **arguments: Any) -> WrittenAnswer:
    """An answer that calls a tool, with a kernel's source where the tool takes one."""
    given = dict(arguments) if arguments else {"source": kernel_source(tile)}
    return WrittenAnswer(role="triton_writer", tool_calls=(ToolCall(id=f"c{tile}", name=name, arguments=given),))
