"""The form of what a candidate's process may answer. Read without torch."""

import math
from typing import Any

import pytest

from warpsmith.tools.worker import claims

OUTPUT = {"shape": [2], "dtype": "float32", "strides": [1], "type": "Tensor", "device": "cuda"}
CALL = {"id": 3, "ms": 0.5, "host_ms": 1, "total_ms": 2.0, "structure": {"tensor": 0}, "specs": [OUTPUT]}
WEIGHT = {"name": "w", "shape": [2], "dtype": "float32", "strides": [], "fingerprint": [0.5, math.nan]}


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("call", CALL),
        ("construct", {"state": [WEIGHT], "setup_ms": 0.0}),
        ("construct", {"state": [], "setup_ms": 0.0}),
        ("weights", {"ok": True, "setup_ms": 3.5}),
        ("trace", {"kernels": {"softmax": 0.25}}),
        ("load", {"ok": True}),
    ],
)
def test_honest_answers_fit(request_: str, answer: dict[str, Any]) -> None:
    assert claims.fault_of(request_, answer) == ""


@pytest.mark.parametrize(
    ("request_", "change", "place"),
    [
        ("call", {"ms": math.nan}, "ms"),
        ("call", {"ms": math.inf}, "ms"),
        ("call", {"ms": "0.5"}, "ms"),
        ("call", {"ms": -0.5}, "ms"),
        ("call", {"host_ms": -1}, "host_ms"),
        ("call", {"host_ms": None}, "host_ms"),
        ("call", {"specs": ["right"]}, "specs.0"),
        ("call", {"specs": [{**OUTPUT, "shape": "2"}]}, "specs.0.shape"),
        ("call", {"specs": None}, "specs"),
        ("construct", {"state": [1], "setup_ms": 0.0}, "state.0"),
        ("construct", {"state": [{**WEIGHT, "fingerprint": "x"}], "setup_ms": 0.0}, "state.0.fingerprint"),
        ("trace", {"kernels": {"softmax": -1.0}}, "kernels.softmax"),
        ("trace", {"kernels": {"softmax": math.inf}}, "kernels.softmax"),
    ],
)
def test_a_fault_is_named_by_its_place(request_: str, change: dict[str, Any], place: str) -> None:
    base = CALL if request_ == "call" else {}
    assert claims.fault_of(request_, {**base, **change}).startswith(place + ":")
