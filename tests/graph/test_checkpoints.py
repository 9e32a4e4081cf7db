"""What a checkpoint holds of a run, and what it may bring back."""

import json
from pathlib import Path

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from scripted.collaborators import ScriptedHarness, ScriptedWriter, kernel

from warpsmith.graph import optimize
from warpsmith.graph.checkpoints import CHECKPOINTED, PackedSerializer
from warpsmith.state.trajectory import Row

ROWS = [Row(id=f"{i:016x}", language="triton", phase="explore", round=i, status="passed") for i in range(20)]


class Wordy(ScriptedWriter):
    """Writes kernels of 20 kB; every fifth is wrong."""

    def propose(self, brief, n):
        made = [kernel("triton", 2 ** (i % 7 + 1), i + 1, fate="" if i % 5 else "wrong") for i in range(100)]
        made = [each.model_copy(update={"source": f"{each.source}# {'x' * 20_000}\n"}) for each in made]
        return [each for each in made if each.id not in brief.tried][:n]


def test_a_run_of_forty_evaluations_leaves_a_checkpoint_under_two_megabytes(problem_file, tmp_path, given):
    out = tmp_path / ("a_long_path_" * 10)
    result = optimize(
        problem_file,
        given=given(harness=ScriptedHarness(speed=0.1), writers={"triton": Wordy("triton")}),
        out=str(out),
        languages="triton",
        budget=40,
        width=2,
        patience=40,
    )
    size = sum(file.stat().st_size for file in Path(result.run_dir).glob("checkpoint.sqlite*"))
    assert result.tried == 40
    assert size < 2_000_000


@pytest.mark.parametrize("value", [None, 3, "short", b"bytes", ROWS, {"rows": ROWS, "kept": ["a", "b"]}])
def test_what_goes_into_a_checkpoint_comes_back(value):
    serializer = PackedSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(value)) == value


def test_long_values_are_packed_and_short_ones_left():
    plain = JsonPlusSerializer().dumps_typed(ROWS)
    kind, packed = PackedSerializer().dumps_typed(ROWS)
    assert kind != plain[0]
    assert len(packed) < len(plain[1]) / 4
    assert PackedSerializer().dumps_typed("short") == JsonPlusSerializer().dumps_typed("short")


def test_checkpoints_of_runs_from_before_are_read():
    assert PackedSerializer().loads_typed(JsonPlusSerializer().dumps_typed(ROWS)) == ROWS


@pytest.mark.parametrize("copies", [1, 20], ids=["left", "packed"])
def test_a_crafted_type_is_not_loaded(copies):
    """Only the named records come back as themselves."""

    class Everything(PackedSerializer):
        def __init__(self):
            self._serializer = JsonPlusSerializer(allowed_msgpack_modules=True)

    strangers = [kernel("triton", 64)] * copies
    crafted = Everything().dumps_typed(strangers)
    assert Everything().loads_typed(crafted) == strangers
    assert all(isinstance(each, dict) for each in PackedSerializer().loads_typed(crafted))


def test_the_server_may_load_the_same_types_as_a_checkpoint():
    settings = json.loads((Path(__file__).resolve().parents[2] / "langgraph.json").read_text())
    allowed = settings["checkpointer"]["serde"]["allowed_msgpack_modules"]
    assert sorted(map(tuple, allowed)) == sorted((kind.__module__, kind.__name__) for kind in CHECKPOINTED)
