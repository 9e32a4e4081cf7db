"""A brief on the scripted world, and desks whose model plays written answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted.answers import REFERENCE
from scripted.collaborators import GPU, ScriptedHarness

from warpsmith.state.brief import Brief
from warpsmith.state.plan import Plan, Strategy
from warpsmith.state.problem import Problem, Workload
from warpsmith.sub_agents.llm.desk import Desk
from warpsmith.sub_agents.llm.written import WrittenAnswer, WrittenModel


@pytest.fixture
def brief() -> Brief:
    described = {"shape": [4096, 1024], "dtype": "float32", "strides": [1024, 1]}
    odd = {"shape": [37, 1021], "dtype": "float32", "strides": [1021, 1]}
    problem = Problem(
        name="running_sum",
        path="running_sum.py",
        source=REFERENCE,
        workloads=(
            Workload(name="default", inputs=(described,), input_bytes=1 << 24, output_bytes=1 << 24),
            Workload(name="odd", arguments={"rows": 37}, inputs=(odd,)),
        ),
        ranges={"rows": (1, 65536)},
        init_arguments=[0.5],
    )
    plan = Plan(
        summary="not covered by templates: aten.cumsum.default",
        strategies=(Strategy(name="one pass", expected_speedup=1.8, why="reads and writes each element once"),),
    )
    return Brief(problem=problem, device=GPU, plan=plan, language="triton", directive="explore")


@pytest.fixture
def open_desk() -> Callable[..., Desk]:
    """A desk whose model plays the answers given; it is reached as `desk.model`."""

    def make(brief: Brief, *answers: WrittenAnswer, **fields: Any) -> Desk:
        fields.setdefault("harness", ScriptedHarness())
        return Desk(model=WrittenModel(answers), brief=brief, language=brief.language, **fields)

    return make


SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture
def snapshot() -> Callable[[str, str], None]:
    """Compares a text with a file; where there is none the text is written and the test fails once."""

    def compare(name: str, text: str) -> None:
        file = SNAPSHOTS / f"{name}.txt"
        if not file.exists():
            file.write_text(text)
            pytest.fail(f"{file.name} was missing: it is written now, read it and run again")
        assert text == file.read_text(), f"prompt changed: delete {file.name} and run again if that is meant"

    return compare
