"""Real processes for the harness's tests: one fork server a session, and boxes to run hostile code in."""

import json
import shutil
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warpsmith.tools.cell import Cell
from warpsmith.tools.fork_server import ForkServer, Spawn
from warpsmith.tools.server_process import ServerProcess
from warpsmith.tools.worker.session import CandidateFailed, Session

SECRET = "a-secret-that-the-servers-parent-holds"
_MARK = "REPORT "


class Boxes:
    """Starts boxed processes and loads code into them as if it were a candidate."""

    def __init__(self, server: ForkServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.cells: list[Cell] = []
        self.endings: list[dict[str, Any]] = []

    def scratch(self) -> Path:
        """A new scratch folder that an unprivileged user can reach by its path."""
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        scratch.chmod(0o755)
        return scratch

    def start(self, code: str = "", max_memory_bytes: int = 24 << 30, **box: Any) -> tuple[Session, Path]:
        """A boxed process with a candidate file in its scratch folder, not loaded yet."""
        scratch = Path(box.setdefault("scratch", str(self.scratch())))
        (Path(box.get("origin", scratch)) / "candidate.py").write_text(textwrap.dedent(code))
        cell = Cell(self.server, Spawn("candidate", {"device": "cpu"}, box, max_memory_bytes), 60.0)
        self.cells.append(cell)
        cell.open_context()
        return Session(self.server, cell.pid, cell.channel, cell.notes), scratch / "candidate.py"

    def fate(self, code: str, deadline_s: float = 30.0, **options: Any) -> CandidateFailed:
        """Loads code that must not survive, and says what the judge makes of it."""
        session, path = self.start(code, **options)
        with pytest.raises(CandidateFailed) as caught:
            session.ask("load", deadline_s, path=str(path))
        session.end()
        self.endings.append(self.server.kill(self.cells[-1].pid))
        return caught.value

    def report(self, code: str, **options: Any) -> Any:
        """Runs code in a box and brings back the JSON value that it leaves in `found`."""
        tail = f"\nimport json as _json\nraise RuntimeError({_MARK!r} + _json.dumps(found))\n"
        text = self.fate(textwrap.dedent(code) + tail, **options).message
        assert _MARK in text, text
        return json.JSONDecoder().raw_decode(text.split(_MARK, 1)[1])[0]

    def end(self) -> None:
        for cell in self.cells:
            cell.__exit__()


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    """A fork server that can compile for a GPU and runs candidates on the CPU."""
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-server-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_TEST_API_KEY", SECRET)
        process = ServerProcess(folder, 240.0, interpret=False)
    process.hello()
    yield process.client
    process.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def boxes(server: ForkServer) -> Iterator[Boxes]:
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-boxes-"))
    folder.chmod(0o755)
    made = Boxes(server, folder)
    yield made
    made.end()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def namespaces(boxes: Boxes) -> None:
    """Skips where the kernel refuses namespaces, with its own reason."""
    session, _ = boxes.start()
    refused = [note for note in session.notes if note.startswith("namespaces")]
    if refused:
        pytest.skip(refused[0])
