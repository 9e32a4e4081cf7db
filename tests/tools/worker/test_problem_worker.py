"""What torch.compile generates for a reference, as a worker reads it."""

from pathlib import Path

import pytest

pytest.importorskip("torch._inductor.utils")
from warpsmith.tools.worker.problem_worker import generated

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
