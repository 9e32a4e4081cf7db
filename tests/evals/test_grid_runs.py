"""A grid's settings in worker processes, on a CPU: a setting that ends or hangs its process costs only itself."""

import time
from pathlib import Path

import pytest

from warpsmith.evals.grid_runs import Runner, read_answers
from warpsmith.state.errors import InfraError

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.zeros(8)]
def get_init_inputs():
    return []
"""
CANDIDATE = """
import os, time, torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        {body}
"""
BODIES = {
    "right": "return x + 1",
    "wrong": "return x + 2",
    "ends": "os._exit(7)",
    "raises": "raise ValueError('no such tile')",
    "hangs": "time.sleep(600)",
    "after": "return 1 + x",
}


def tasks(folder: Path, *names: str) -> list[dict[str, str]]:
    problem = folder / "problem.py"
    problem.write_text(PROBLEM)
    for name in names:
        (folder / f"{name}.py").write_text(CANDIDATE.format(body=BODIES[name]))
    return [{"id": name, "problem": str(problem), "source": str(folder / f"{name}.py")} for name in names]


@pytest.mark.slow
def test_each_setting_has_an_answer_whatever_the_others_do(tmp_path):
    runner = Runner(work=tmp_path, device="cpu", deadline=time.monotonic() + 120, stalled_s=12)
    found = runner.answers("check", tasks(tmp_path, *BODIES), jobs=1)
    assert found["right"]["error"] == found["after"]["error"] == ""
    assert found["wrong"]["error"].startswith("off by")
    assert found["raises"]["error"] == "ValueError: no such tile"
    assert found["ends"]["error"] == "the process ended"
    assert found["hangs"]["error"] == "the process stalled"


def test_a_problem_that_cannot_be_opened_is_nobodys_setting(tmp_path):
    listed = tasks(tmp_path, "right")
    (tmp_path / "problem.py").write_text("nonsense(")
    runner = Runner(work=tmp_path, device="cpu", deadline=time.monotonic() + 60)
    with pytest.raises(InfraError, match="ended without an answer"):
        runner.answers("check", listed, jobs=1)


def test_nothing_is_begun_after_the_deadline(tmp_path):
    runner = Runner(work=tmp_path, device="cpu", deadline=time.monotonic() - 1)
    assert runner.answers("check", tasks(tmp_path, "right"), jobs=2) == {}


def test_a_half_written_answer_is_no_answer(tmp_path):
    file = tmp_path / "answers.jsonl"
    file.write_text('{"begin": "a"}\n{"id": "a", "ms": 1.5}\n{"begin": "b"}\n{"id": "b", "m')
    assert read_answers(file) == ({"a": {"id": "a", "ms": 1.5}}, "b")
    assert read_answers(tmp_path / "none") == ({}, None)
