"""The base of every record: frozen, closed to unknown fields, comparable by value."""

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A fact that never changes after it is made. Change is a new record (`model_copy`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="constants")


def digest(*parts: Any) -> str:
    """SHA-256 hex digest of JSON-encoded parts; equal parts give equal digests across processes."""
    encoded = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(encoded.encode()).hexdigest()
