"""A process that is killed while it writes a line loses that line and no other."""

from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.state.errors import InvalidInput
from warpsmith.sub_agents.llm.desk import Journal
from warpsmith.tools.line_file import append_line
from warpsmith.tools.replay import Recording


def journalled(file: Path, names: list[str]) -> list[bool]:
    journal, asked = Journal(file), []
    for name in names:
        journal.tell((name,), lambda name=name: asked.append(name) or name)
    return [name in asked for name in names]


def recorded(file: Path, names: list[str]) -> list[bool]:
    recording = Recording(file)
    known = [recording.find("kind", name) is not None for name in names]
    for name in names:
        recording.add("kind", name, (), name)
    return [not each for each in known]


def test_a_half_line_is_ended_before_the_next(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    for line in ("one", "two"):
        append_line(file, line)
    file.write_bytes(file.read_bytes() + b"ha")
    append_line(file, "three")
    assert file.read_text() == "one\ntwo\nha\nthree\n"


@pytest.mark.parametrize("made", [journalled, recorded])
@pytest.mark.parametrize("lost", [1, 8, 25])
def test_only_the_half_line_is_lost(tmp_path: Path, made: Callable[[Path, list[str]], list[bool]], lost: int) -> None:
    file = tmp_path / "lines.jsonl"
    assert made(file, ["first", "second"]) == [True, True]
    file.write_bytes(file.read_bytes()[: -1 - lost])
    assert made(file, ["third"]) == [True]
    assert made(file, ["first", "second", "third"]) == [False, True, False]
    assert made(file, ["first", "second", "third"]) == [False, False, False]


def test_a_file_that_is_no_recording_is_refused_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text("import torch\n")
    with pytest.raises(InvalidInput, match="line 1 is not part of a recording"):
        Recording(file)
