"""Candidates that answer for their process, or break what the judge holds: their own fault, never the machine's."""

import pytest
from candidates.softmax import CLASS, RIGHT, verdict

from warpsmith.state.evaluation import Status
from warpsmith.state.problem import Problem
from warpsmith.tools.local import LocalHarness

LIAR = """
import json, os, socket, stat, struct
def channel():
    for number in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                return number
        except OSError:
            pass
def say(text):
    payload = text.encode()
    os.write(channel(), struct.pack(">I", len(payload)) + payload)
"""


@pytest.mark.parametrize(
    "said",
    [
        "[]",
        "{}",
        "garbage",
        '{"id": 1}',
        '{"id": 2}',
        '{"id": 2, "state": 3, "setup_ms": "soon"}',
        '{"id": 2, "state": [{"name": 3}], "setup_ms": 1}',
        '{"id": 2, "state": [], "setup_ms": NaN}',
        '{"id": 2, "error": {"deep": []}, "kind": []}',
    ],
)
def test_answers_that_the_candidate_writes_itself_are_its_own_fault(
    harness: LocalHarness, softmax: Problem, said: str
) -> None:
    """It writes on the channel while it is constructed, before the honest answer of its own process."""
    source = LIAR + CLASS.format(forward=RIGHT).replace("super().__init__()", f"super().__init__(); say({said!r})")
    found = verdict(harness, softmax, source)
    assert found.status not in (Status.INFRA_ERROR, Status.PASSED)
    assert not found.correct, found


@pytest.mark.parametrize(
    "said", ['{"id": 5}', '{"id": 6}', '{"id": 7, "ms": null}', '{"id": 7, "specs": 3}', '{"id": 7}']
)
def test_answers_to_calls_that_the_candidate_writes_itself_are_its_own_fault(
    harness: LocalHarness, softmax: Problem, said: str
) -> None:
    source = LIAR + CLASS.format(forward=f"say({said!r}); {RIGHT}")
    found = verdict(harness, softmax, source)
    assert found.status is not Status.INFRA_ERROR
    assert not found.correct, found


def test_cutting_the_judges_buffers_short_does_not_end_the_judge(harness: LocalHarness, softmax: Problem) -> None:
    cut = """
import gc, mmap, os
def cut():
    for number in range(3, 256):
        try:
            os.ftruncate(number, 0)
        except OSError:
            pass
"""
    found = verdict(harness, softmax, cut + CLASS.format(forward=f"cut(); {RIGHT}"))
    assert found.status is not Status.INFRA_ERROR
    assert harness.judges.alive(softmax)


@pytest.mark.parametrize(
    "said", ['{"dict": 5}', '{"tuple": null}', '{"type": "float"}', '{"literal": 1, "type": "float"}', '"x"']
)
def test_an_output_described_unreadably_is_the_candidates_fault(
    harness: LocalHarness, softmax: Problem, said: str
) -> None:
    patched = f"""
import json, sys
child = sys.modules["warpsmith.tools.worker.child"]
child.structure.flatten = lambda value, honest=child.structure.flatten: (json.loads({said!r}), honest(value)[1])
"""
    found = verdict(harness, softmax, patched + CLASS.format(forward=RIGHT))
    assert found.status is Status.INCORRECT_STRUCTURE, found.message
