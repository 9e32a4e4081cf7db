"""What torch.compile generates for a reference, as a worker reads it."""

from pathlib import Path

import pytest

pytest.importorskip("torch._inductor.utils")
from warpsmith.tools.worker.problem_worker import generated, lower

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1

def get_inputs(n=64):
    return [torch.randn(n)]

def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_the_generated_code_of_a_reference_is_read_back(tmp_path: Path) -> None:
    body = {
        "path": str(tmp_path / "p.py"),
        "source": SOURCE,
        "arguments": {},
        "device": "cpu",
        "cache": str(tmp_path / "cache"),
    }
    text = generated(body)["text"]
    assert "def call(" in text or "call(self, args)" in text
    assert "cpp_fused" in text


@pytest.mark.parametrize(
    ("init", "forward", "inputs"),
    [
        ("self.rate = [v.item() for v in torch.linspace(0, 0.1, 3)][1]", "torch.relu(x) * self.rate", "torch.randn(n)"),
        ("self.at = torch.arange(64.0).to('cpu')", "torch.relu(x) + self.at.to(x)", "torch.randn(n)"),
        ("pass", "torch.relu(x) + torch.zeros(64)", "torch.randn(n)"),
        ("pass", "torch.relu(x.float())", "torch.randn(n).to('cpu')"),
    ],
)
def test_what_the_meta_device_cannot_do_is_lowered_on_the_cpu(init: str, forward: str, inputs: str) -> None:
    source = SOURCE.replace("torch.relu(x) * 2 + 1", forward).replace("torch.randn(n)", inputs)
    started = f"(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
    source = source.replace("(torch.nn.Module):\n", started)
    graph = lower({"path": "p.py", "source": source, "arguments": {}, "dynamic": False, "deadline_s": 60})["graph"]
    assert not graph["unsupported"]
    assert any("relu" in node["op"] for node in graph["nodes"])
