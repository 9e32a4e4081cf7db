"""What was measured of a card is kept for that card: another one at its index is measured anew."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith.tools import device_search, wire
from warpsmith.tools.device_sheets import target_sheet

VERSIONS = {"torch": "2.11.0"}


class Server:
    """Answers every probe with a card of a new name."""

    def __init__(self) -> None:
        self.probes = 0
        self.client = SimpleNamespace(spawn=self._spawn, kill=lambda pid: None)

    def _spawn(self, _request: object) -> tuple[int, Any]:
        self.probes += 1
        return 1, SimpleNamespace(close=lambda: None)

    def answer(self, *_: object) -> Any:
        known = target_sheet("sm_90", VERSIONS).model_dump(exclude={"versions", "peak_flops", "peak_bytes_per_s"})
        gpu = {**known, "simulated": False, "name": f"card {self.probes}", "peak_bytes_per_s": 4.8e12}
        return SimpleNamespace(body={"gpu": {**gpu, "free_bytes": gpu["memory_bytes"]}})


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Probes with a driver that says this of the card at index 0; the name of what was found."""
    server = Server()
    monkeypatch.setattr(wire, "receive", server.answer)

    def found(says: str) -> str:
        smi = tmp_path / "nvidia-smi"
        smi.write_text(f"#!/bin/sh\n{f'echo {says}' if says else 'exit 9'}\n")
        smi.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin:/bin")
        sheet, _ = device_search._probe(server, tmp_path, VERSIONS, 0)  # type: ignore[arg-type]
        assert sheet is not None
        return sheet.name

    return found


def test_a_card_is_measured_once_and_another_at_its_index_anew(probe):
    assert [probe("GPU-1"), probe("GPU-1"), probe("GPU-2"), probe("GPU-1")] == ["card 1", "card 1", "card 2", "card 1"]


def test_a_card_that_the_driver_does_not_name_is_measured_every_time(probe):
    assert [probe(""), probe("")] == ["card 1", "card 2"]


def test_a_kept_sheet_that_is_no_longer_read_is_measured_anew(probe, tmp_path):
    probe("GPU-1")
    (kept,) = tmp_path.glob("device-*.json")
    kept.write_text("{")
    assert probe("GPU-1") == "card 2"
