"""What the doctor sees without a worker."""

import shutil
import subprocess

import pytest

from warpsmith.graph.doctor import Finding, checks, disk, interpreter, namespaces, package, program


def test_every_line_that_is_not_fine_says_what_to_do(tmp_path):
    found = checks(tmp_path)
    assert {"python", "gpu", "torch", "triton", "cupy", "nvcc", "namespaces", "disk"} <= {check.name for check in found}
    assert all(check.fine or check.advice for check in found)
    assert all(check.found for check in found)


def test_an_interpreter_left_on_in_the_environment_is_a_failure(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    found = interpreter()
    assert (found.fine, found.needed, found.mark) == (False, True, "FAIL")
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert interpreter().fine


def test_what_is_optional_is_marked_apart_from_what_fails():
    assert Finding("x", False, "no").mark.strip() == "-"
    assert package("no-such-distribution", True, "install it").mark == "FAIL"
    assert program("no-such-program", "optional").fine is False


def test_a_tool_that_does_not_end_is_a_line_of_the_doctors(monkeypatch):
    def hangs(command, **settings):
        raise subprocess.TimeoutExpired(command, settings["timeout"])

    monkeypatch.setattr(subprocess, "run", hangs)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert (namespaces().fine, namespaces().found) == (False, "unshare does not end")


def test_the_disk_is_that_of_the_nearest_folder_that_exists(tmp_path):
    assert str(tmp_path) in disk(tmp_path / "a" / "b").found


@pytest.mark.slow
def test_the_command_reports_the_device_and_exits_0(tmp_path, monkeypatch, capsys):
    from warpsmith.graph.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    printed = capsys.readouterr().out
    assert ended.value.code == 0, printed
    assert "multiprocessors" in printed
