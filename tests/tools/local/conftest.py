"""One harness for the whole folder, as a dry run, and what is judged with it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from candidates.softmax import CLASS, HEAD, SCALED_SOFTMAX, verdict

from warpsmith.state.evaluation import Evaluation
from warpsmith.state.problem import Problem
from warpsmith.tools.local import HarnessSettings, LocalHarness

Judge = Callable[[str], Evaluation]


@pytest.fixture(scope="package")
def harness() -> Iterator[LocalHarness]:
    harness = LocalHarness(HarnessSettings(dry_run=True, compile_workers=2, call_limit_s=10.0, start_timeout_s=240.0))
    yield harness
    harness.close()


@pytest.fixture
def opened(harness: LocalHarness, tmp_path: Path) -> Callable[[str], Problem]:
    """Writes a problem file and loads it."""

    def load(body: str, name: str = "reference.py") -> Problem:
        path = tmp_path / name
        path.write_text(HEAD + dedent(body))
        return harness.load(path)

    return load


@pytest.fixture(scope="package")
def softmax(harness: LocalHarness, tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("softmax") / "softmax.py"
    path.write_text(HEAD + SCALED_SOFTMAX)
    return harness.load(path)


@pytest.fixture
def judged(harness: LocalHarness, softmax: Problem) -> Judge:
    return lambda forward: verdict(harness, softmax, CLASS.format(forward=forward))
