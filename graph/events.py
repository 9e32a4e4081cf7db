"""What a run tells while it goes: one structlog event a step, to `events.jsonl` and to whoever listens."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import structlog

from ..tools.whole_file import naming

Listener = Callable[[dict[str, Any]], None]


class EventLog:
    """Writes each event as one JSON line and hands it to the listeners as a dict."""

    def __init__(self, path: Path, listeners: tuple[Listener, ...] = ()) -> None:
        self._file: TextIO = path.open("a", encoding="utf-8", buffering=1)
        self._listeners = listeners
        self._log = structlog.wrap_logger(
            SimpleNamespace(info=naming(path)(structlog.WriteLogger(self._file).info)),
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                self._tell,
                structlog.processors.JSONRenderer(),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(0),  # A host program may have configured another.
            context_class=dict,
        )

    def emit(self, event: str, **fields: Any) -> None:
        """Nothing happens once it is closed: an impatient Ctrl-C leaves evaluations behind, which still end."""
        if not self._file.closed:
            self._log.info(event, **fields)

    def close(self) -> None:
        self._file.close()

    def _tell(self, _logger: object, _method: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        for listener in self._listeners:
            listener(dict(event))
        return event
