"""The clock lock against a program that stands for nvidia-smi: what it is asked, and that every way out undoes it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warpsmith.state.errors import InfraError, InvalidInput
from warpsmith.tools.clock_lock import locked_clocks

FAKE = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
  *--query-compute-apps*) printf '{others}';;
  *--query-gpu*) echo '{clocks}';;
  *-lgc*) exit {lock_code};;
  *-rgc*) sleep {restore_s}; echo done >> {log}; exit {restore_code};;
esac
"""


class Card:
    """A folder with the program, first on PATH, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "asked"

    def install(self, **changes: str | float) -> None:
        facts = {"others": "", "clocks": "1755, 1980", "lock_code": 0, "restore_code": 0, "restore_s": 0, **changes}
        program = self.folder / "nvidia-smi"
        program.write_text(FAKE.format(log=self.log, **facts))
        program.chmod(0o755)

    def asked(self) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if line != "done"]

    def is_restored(self) -> bool:
        """Whether the last thing that the program did was to finish giving the clocks back."""
        return self.log.read_text().splitlines()[-2:] == ["-i 0 -rgc", "done"]


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Card:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    made = Card(tmp_path)
    made.install()
    return made


def test_the_default_clock_is_locked_and_given_back(card: Card) -> None:
    with locked_clocks(0) as mhz:
        assert card.asked()[-1] == "-i 0 -lgc 1755,1755"
    assert mhz == 1755
    assert card.asked()[-1] == "-i 0 -rgc"


def test_a_card_without_a_default_is_locked_at_its_maximum(card: Card) -> None:
    card.install(clocks="[N/A], 1980")
    with locked_clocks(0) as mhz:
        assert mhz == 1980


def test_the_card_is_the_one_that_this_process_sees(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    with locked_clocks(1):
        pass
    assert all(line.startswith("-i 5 ") for line in card.asked())


def test_a_card_with_other_processes_is_left_alone(card: Card) -> None:
    card.install(others="4711\\n4712\\n")
    with pytest.raises(InvalidInput, match="2 other processes"), locked_clocks(0):
        pass
    assert not any("gc" in line for line in card.asked())


def test_a_refusal_says_so_and_nothing_stays_locked(card: Card) -> None:
    card.install(lock_code=4)
    with pytest.raises(InvalidInput, match="administrator"), locked_clocks(0):
        pass
    assert card.asked()[-1] == "-i 0 -rgc"


def test_an_exception_gives_the_clocks_back(card: Card) -> None:
    with pytest.raises(ZeroDivisionError), locked_clocks(0):
        _ = 1 / 0
    assert card.asked()[-1] == "-i 0 -rgc"


def test_a_lock_that_cannot_be_undone_tells_what_to_do(card: Card) -> None:
    card.install(restore_code=1)
    with pytest.raises(InfraError, match="nvidia-smi -i 0 -rgc"), locked_clocks(0):
        pass


def test_without_nvidia_smi_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInput, match="no nvidia-smi"), locked_clocks(0):
        pass


def locked_process(card: Card) -> subprocess.Popen[bytes]:
    """A process that holds the lock and waits."""
    # As in a terminal: what a shell starts in the background ignores interrupts, and so would everything below it.
    heard = "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    waits = "from warpsmith.tools.clock_lock import locked_clocks\nwith locked_clocks(0): time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", f"{heard}\n{waits}"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not any("-lgc" in line for line in card.asked()) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    return process


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_clocks_back(card: Card, ending: signal.Signals) -> None:
    process = locked_process(card)
    process.send_signal(ending)
    assert process.wait(30) != 0
    assert card.is_restored()


def test_a_second_signal_does_not_keep_the_clocks_locked(card: Card) -> None:
    card.install(restore_s=0.5)
    process = locked_process(card)
    for _ in range(4):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) != 0
    assert card.is_restored()
