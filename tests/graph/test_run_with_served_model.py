"""The whole loop with a small real language model behind it: it need not write a good kernel, the run must survive."""

import json
from pathlib import Path

import pytest
from served_model.serving import HOW, served_model, weights

from warpsmith.graph import optimize
from warpsmith.sub_agents.models.store import AnswerStore
from warpsmith.sub_agents.models.team import ANSWERS_FILE

PROBLEM = '''import torch
from torch import nn


class Model(nn.Module):
    """y = running sum of x along its rows."""

    def forward(self, x):
        return torch.cumsum(x, dim=1)


def get_inputs(rows=64):
    return [torch.randn(rows, 256)]


def get_init_inputs():
    return []
'''


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("writer", ["llm", "hybrid"])
def test_a_run_survives_everything_that_a_small_model_says(writer, tmp_path: Path):
    file = weights()
    if file is None:
        pytest.skip(f"no model to serve: {HOW}")
    problem = tmp_path / "running_sum.py"
    problem.write_text(PROBLEM)
    with served_model(file, tmp_path / "log") as address:
        result = optimize(
            problem,
            model="SmolLM2",
            base_url=address,
            writer=writer,
            languages="triton",
            dry_run=True,
            budget=3,
            width=1,
            conversations=1,
            tokens=30_000,
            seconds=400.0,
            out=str(tmp_path / "runs"),
        )
    run_dir = Path(result.run_dir)
    entries = AnswerStore(run_dir / ANSWERS_FILE).entries()
    assert entries, "the model was never asked"
    assert all(entry.outcome in ("answered", "failed") for entry in entries)
    assert result.models is not None
    assert result.models.tokens <= 30_000 * 1.02
    assert result.outcome in ("nothing", "estimated")
    assert json.loads((run_dir / "report.json").read_text())["models"]["tokens"] == result.models.tokens
