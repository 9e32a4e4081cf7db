"""A museum's result file that several commands write: what it says of the whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from warpsmith.evals.exhibits import collect
from warpsmith.evals.museum_report import Conditions, Ledger, Verdict
from warpsmith.state.errors import InvalidInput

HOSTILE, OTHER = collect("hostile/faking")[:2]
HONEST = collect("honest/")[0]
CAUGHT, FINE = Verdict(status="timeout", accepted=False), Verdict(status="passed", accepted=True)


def content(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_it_names_every_command_that_wrote_it_and_the_verdicts_that_all_have(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    Ledger(out, Conditions(command="museum --only hostile", repeat=1)).add(HOSTILE, CAUGHT)
    controls = Ledger(out, Conditions(command="museum --only honest", repeat=2))
    controls.forget([HONEST], changed_only=True)
    controls.add(HONEST, FINE)
    controls.add(HONEST, FINE)
    found = content(out)
    assert found["command"] == "museum --only hostile; museum --only honest"
    assert (found["repeat"], found["honest_repeat"]) == (1, 2)


def test_two_processes_that_write_one_file_are_both_named(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    ledgers = [Ledger(out, Conditions(command=f"museum --shard {n}/2")) for n in range(2)]
    for ledger, exhibit in zip(ledgers, (HOSTILE, OTHER), strict=True):
        ledger.forget([exhibit], changed_only=False)
        ledger.add(exhibit, CAUGHT)
    assert content(out)["command"] == "museum --shard 0/2; museum --shard 1/2"
    assert content(out)["exploits_total"] == 2


def test_a_run_that_replaces_every_row_is_named_alone(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    Ledger(out, Conditions(command="museum --gpu 1")).add(HOSTILE, CAUGHT)
    again = Ledger(out, Conditions(command="museum"))
    again.forget([HOSTILE], changed_only=False)
    again.add(HOSTILE, CAUGHT)
    assert content(out)["command"] == "museum"


@pytest.mark.parametrize("text", ["{", "[]", '{"tier": "quick"}'])
def test_another_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    out = tmp_path / "museum.json"
    out.write_text(text)
    with pytest.raises(InvalidInput, match="museum.json: is not a file of this command"):
        Ledger(out, Conditions())
