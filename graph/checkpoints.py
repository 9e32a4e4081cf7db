"""How a run's checkpoints are written: strict about what they bring back, and small.

LangGraph writes the whole state after every step. Most of one checkpoint is names and versions of channels, which
barely change from step to step, so that packing each one makes a run's file about half as large.
"""

import sqlite3
import zlib
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from ..state.channels import Diagnosis, EvaluateTask, ProposeTask, WriterRequest
from ..state.evaluation import Status
from ..state.feedback import Feedback
from ..state.trajectory import Row

CHECKPOINTED = (Row, Diagnosis, Feedback, WriterRequest, ProposeTask, EvaluateTask, Status)
"""The only types that a checkpoint may bring back: a crafted one cannot load anything else."""

_PACKED = "+zlib"
_WORTH_PACKING_BYTES = 256


class PackedSerializer(SerializerProtocol):
    """LangGraph's strict serializer, with long values packed. Values that were written unpacked are read as well."""

    def __init__(self) -> None:
        allowed = [(kind.__module__, kind.__name__) for kind in CHECKPOINTED]
        self._serializer = JsonPlusSerializer(allowed_msgpack_modules=allowed)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = self._serializer.dumps_typed(obj)
        return (kind, data) if len(data) < _WORTH_PACKING_BYTES else (kind + _PACKED, zlib.compress(data))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind, packed = data
        if not kind.endswith(_PACKED):
            return self._serializer.loads_typed(data)
        return self._serializer.loads_typed((kind.removesuffix(_PACKED), zlib.decompress(packed)))


def checkpointer(connection: sqlite3.Connection) -> SqliteSaver:
    """A run's checkpoints in the connection's file."""
    return SqliteSaver(connection, serde=PackedSerializer())
