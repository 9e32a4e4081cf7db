"""The README's Python examples run on a real problem with the real harness (a dry run without a GPU).

They run as they stand but for a smaller budget.
"""

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
PROBLEM = re.compile(r'"(evals/problems/\w+\.py)"')


def test_the_readme_shows_optimize_invoke_and_stream():
    assert any("optimize(" in block for block in BLOCKS)
    assert any("graph.invoke(" in block for block in BLOCKS)
    assert any("graph.stream(" in block for block in BLOCKS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", BLOCKS, ids=lambda block: next(iter(re.findall(r"optimize\(|invoke|stream", block)), "other")
)
def test_an_example_of_the_readme_runs(block, tmp_path, monkeypatch, capsys):
    """In a folder of its own, so that its runs do not land in the checkout."""
    for path in PROBLEM.findall(block):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    monkeypatch.chdir(tmp_path)
    small, replaced = re.subn(r"budget=\d+", "budget=1", block)
    assert replaced
    exec(compile(small, "README.md", "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    if "stream(" in block:
        nodes = [line.split()[0] for line in printed.splitlines()]
        assert nodes[:4] == ["load_problem", "vet_problem", "measure_baseline", "plan"]
        assert {"propose", "evaluate", "diagnose", "feedback", "record"} <= set(nodes)
        assert nodes[-1] == "report"
    else:
        assert printed.splitlines()[0].split()[0] in ("estimated", "verified")
    assert list(tmp_path.glob("runs/*/*/report.html"))
