"""A harness that is closed after something of it broke, and two of them that share a work folder."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsmith.state.errors import InfraError
from warpsmith.tools.local import HarnessSettings, LocalHarness


def test_what_a_dead_server_refuses_keeps_nothing_else_from_being_closed(tmp_path: Path) -> None:
    harness, steps = LocalHarness.__new__(LocalHarness), []

    def step(name: str, fails: bool = False) -> SimpleNamespace:
        def close() -> None:
            steps.append(name)
            if fails:
                raise InfraError(f"{name} does not answer")

        return SimpleNamespace(close=close, stop=lambda: steps.append(f"stop {name}"))

    harness.work_dir, harness._own_dir, harness._boxes_lock = tmp_path / "work", True, None
    harness.work_dir.mkdir()
    harness._reader, harness.judges, harness.cells = step("reader"), step("judges", True), step("cells")  # type: ignore[assignment]
    harness._servers = [step("first"), step("second")]  # type: ignore[list-item]
    with pytest.raises(InfraError, match="judges does not answer"):
        harness.close()
    assert steps == ["reader", "stop cells", "judges", "cells", "second", "first"]
    assert not harness.work_dir.exists()


@pytest.mark.slow
@pytest.mark.parametrize("namespaces", [True, False])
def test_two_harnesses_of_one_work_folder_start_at_once(tmp_path: Path, namespaces: bool) -> None:
    """Each used to remove the folder that the other one's first box was starting in."""
    settings = HarnessSettings(dry_run=True, work_dir=tmp_path, start_timeout_s=240.0, namespaces=namespaces)
    tmp_path.chmod(0o755)
    found: list[LocalHarness] = []
    threads = [threading.Thread(target=lambda: found.append(LocalHarness(settings))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    boxes = {harness.compiler.shown_at or harness.compiler.boxes for harness in found}
    for harness in found:
        harness.close()
    assert len(found) == 2
    if not namespaces:
        assert len(boxes) == 2
