"""Scratch folders that hostile code left behind: what is copied out of them, and that they can be removed."""

import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from warpsmith.tools import scratch_folder


def deep(folder: Path, levels: int) -> None:
    home = Path.cwd()
    os.chdir(folder)
    try:
        for _ in range(levels):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(home)


def test_regular_files_are_copied_with_their_folders(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/cache.json").write_text("{}")
    scratch_folder.copy_files(tmp_path / "a", tmp_path / "copy")
    assert (tmp_path / "copy/b/cache.json").read_text() == "{}"


def test_links_pipes_and_sockets_stay_behind(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.mkdir()
    (tmp_path / "secret").write_text("secret")
    (source / "link").symlink_to(tmp_path / "secret")
    (source / "folder").symlink_to(tmp_path)
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(source / "socket"))
    scratch_folder.copy_files(source, tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


def test_a_tree_of_thousands_is_copied_in_part_and_removed_whole(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    deep(tmp_path / "a", 3000)
    scratch_folder.copy_files(tmp_path / "a", tmp_path / "copy")
    assert (tmp_path / "copy/d/d").is_dir()
    for folder in ("a", "copy"):
        scratch_folder.remove(tmp_path / folder)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a/locked/inner").mkdir(parents=True)
    (tmp_path / "a/locked").chmod(0)
    scratch_folder.remove(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_removal_that_does_not_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(command: list[str], **settings: Any) -> None:
        raise subprocess.TimeoutExpired(command, settings["timeout"])

    (tmp_path / "a").mkdir()
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    monkeypatch.setattr(subprocess, "run", hangs)
    scratch_folder.remove(tmp_path / "a")
    assert (tmp_path / "a").exists()


def test_source_is_never_written_through_a_link(tmp_path: Path) -> None:
    box = tmp_path / "box"
    box.mkdir()
    (tmp_path / "outside").write_text("mine")
    (box / "candidate.py").symlink_to(tmp_path / "outside")
    scratch_folder.write_source(box, "x = 1")
    assert (tmp_path / "outside").read_text() == "mine"
    assert (box / "candidate.py").read_text() == "x = 1"


def test_source_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "candidate.py/inner").mkdir(parents=True)
    assert scratch_folder.write_source(tmp_path, "x = 1").read_text() == "x = 1"
