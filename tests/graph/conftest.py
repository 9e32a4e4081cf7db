"""A run on scripted collaborators, in a folder of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted.collaborators import SOURCE, ScriptedHarness, ScriptedPlanner, ScriptedWriter

from warpsmith.graph.services import Collaborators


@pytest.fixture
def problem_file(tmp_path: Path) -> Path:
    file = tmp_path / "scripted_problem.py"
    file.write_text(SOURCE)
    return file


@pytest.fixture
def given() -> Callable[..., Collaborators]:
    """Scripted collaborators; a keyword replaces one, `fates` spoils the writers' candidates by tile."""

    def make(**fields: Any) -> Collaborators:
        fates = fields.pop("fates", {})
        fields.setdefault("harness", ScriptedHarness())
        fields.setdefault("planner", ScriptedPlanner())
        if "writers" not in fields:
            fields["writers"] = {name: ScriptedWriter(name, fates=fates) for name in ("triton", "cuda")}
        return Collaborators(**fields)

    return make
