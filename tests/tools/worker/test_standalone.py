"""Programs of their own: one that waits for its turn goes on when it comes, and never without it."""

import threading
from pathlib import Path

import pytest

from warpsmith.tools.worker import standalone


def test_a_program_goes_on_when_its_gate_is_opened(tmp_path: Path) -> None:
    gate = tmp_path / "timing"
    threading.Timer(0.05, gate.touch).start()
    standalone.wait_for(gate)
    assert gate.exists()


def test_a_program_whose_turn_does_not_come_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone, "_MOST_WAIT_S", 0.05)
    with pytest.raises(TimeoutError, match="its turn"):
        standalone.wait_for(tmp_path / "timing")
