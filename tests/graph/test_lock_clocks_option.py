"""`--lock-clocks` on the command line: refused in one line, and undone when the command fails."""

import os
from pathlib import Path

import pytest

from warpsmith.graph import cli

FAKE = """#!/bin/sh
echo "$*" >> {log}
case "$*" in *--query-gpu*) echo '1755, 1980';; esac
"""


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    "command", [["evaluate", "none.py", "--problem", "none.py"], ["optimize", "none.py"]], ids=["evaluate", "optimize"]
)
def test_clocks_are_locked_for_the_command_and_given_back_when_it_fails(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(FAKE.format(log=tmp_path / "log"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert exit_code(*command, "--lock-clocks", "--gpu", "1") == 2
    asked = (tmp_path / "log").read_text().splitlines()
    assert asked[-2:] == ["-i 1 -lgc 1755,1755", "-i 1 -rgc"]
    assert "none.py" in capsys.readouterr().err


def test_without_nvidia_smi_it_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert exit_code("evaluate", "none.py", "--problem", "none.py", "--lock-clocks") == 2
    assert capsys.readouterr().err.splitlines() == [
        "warpsmith: --lock-clocks: there is no nvidia-smi on PATH; leave the option out"
    ]
