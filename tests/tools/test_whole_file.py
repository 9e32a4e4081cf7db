"""Files that are whole or not there, and locks that die with their holder."""

import errno
import os
from pathlib import Path

import pytest

from warpsmith.graph.run_directory import append_line
from warpsmith.tools.file_lock import hold
from warpsmith.tools.whole_file import write_whole


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    write_whole(tmp_path / "a.json", "1")
    write_whole(tmp_path / "a.json", "2")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.json", "2")]


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_a_full_disk_is_told_with_the_files_name_and_leaves_it_as_it_was(tmp_path, monkeypatch, step):
    path = write_whole(tmp_path / "a.json", "1")

    def full(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, step, full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_whole(path, "2")
    assert caught.value.filename == str(path)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.json", "1")]


def test_a_line_that_a_full_disk_does_not_take_is_told_with_the_files_name(tmp_path, monkeypatch):
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        append_line(tmp_path / "rows.jsonl", "{}")
    assert caught.value.filename == str(tmp_path / "rows.jsonl")


def test_a_lock_has_one_holder_until_it_is_given_back(tmp_path):
    first = hold(tmp_path / "lock")
    assert first is not None
    assert hold(tmp_path / "lock") is None
    first.close()
    again = hold(tmp_path / "lock")
    assert again is not None
    again.close()
