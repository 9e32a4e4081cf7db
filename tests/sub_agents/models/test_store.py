"""What was answered is never asked again, also after the process was killed; what was in flight is listed."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from scripted_server.server import ScriptedServer, fail, say

from warpsmith.state.errors import InvalidInput
from warpsmith.sub_agents.models.endpoint import Surroundings
from warpsmith.sub_agents.models.protocol import Answer, Ask, BudgetSpent, EndpointFault, Message, ModelError, Usage
from warpsmith.sub_agents.models.settings import ModelSettings
from warpsmith.sub_agents.models.store import AnswerStore, RecordedModel
from warpsmith.sub_agents.models.team import ANSWERS_FILE, open_models
from warpsmith.sub_agents.models.usage import money_spent, total_cost, total_tokens, usage_rows


def opened(server: ScriptedServer, run_dir, **settings) -> RecordedModel:
    settings = {"model": "scripted", "base_url": server.url, "attempts": 1, **settings}
    return open_models(ModelSettings.model_validate(settings), run_dir, Surroundings(pause=lambda seconds: None))


def test_a_second_session_answers_from_the_record(tmp_path, ask):
    with ScriptedServer([say("one"), say("two"), say("three")]) as server:
        first = opened(server, tmp_path)
        said = [first.ask(ask(tag=tag)) for tag in ("a", "b", "a")]
        second = opened(server, tmp_path)
        again = [second.ask(ask(tag=tag)) for tag in ("a", "b", "a")]
    assert [answer.text for answer in said] == ["one", "two", "three"]
    assert again == said
    assert len(server.requests) == 3
    assert {entry.outcome for entry in second.store.entries()} == {"answered"}


def test_the_budget_goes_on_where_the_last_session_left_it(tmp_path, ask):
    with ScriptedServer([say("one")]) as server:
        opened(server, tmp_path).ask(ask(tag="a"))
        second = opened(server, tmp_path)
        assert second.ledger.spent_tokens == 31
        second.ask(ask(tag="a"))
        assert second.ledger.spent_tokens == 31
        second.ask(ask(tag="b"))
        assert second.ledger.spent_tokens == 62


def test_what_failed_is_asked_again_and_both_count(tmp_path, ask):
    with ScriptedServer([fail(500), say("fine")]) as server:
        first = opened(server, tmp_path)
        with pytest.raises(EndpointFault):
            first.ask(ask())
        assert first.store.entries()[0].error.startswith("EndpointFault: scripted at")
        second = opened(server, tmp_path)
        assert second.ask(ask()).text == "fine"
    assert [entry.outcome for entry in second.store.entries()] == ["failed", "answered"]
    assert sum(entry.usage.requests for entry in second.store.entries()) == 2


SESSION = """
import sys
from pathlib import Path
from warpsmith.sub_agents.models.protocol import Ask, Message
from warpsmith.sub_agents.models.settings import ModelSettings
from warpsmith.sub_agents.models.team import open_models

model = open_models(ModelSettings(model="scripted", base_url=sys.argv[1], token_budget=20000), Path(sys.argv[2]))
for tag in ("first", "second", "third"):
    message = Message(author="user", text=f"write the {tag} kernel")
    answer = model.ask(Ask(role="triton_writer", phase="explore", messages=(message,), max_output_tokens=500, tag=tag))
    print(answer.text, flush=True)
"""


def test_a_process_killed_in_the_middle_of_a_call_asks_only_that_one_again(tmp_path):
    hung = []

    def script(body):
        text = body["messages"][-1]["content"]
        if "second" in text and not hung:
            hung.append(text)
            return say("never heard", delay_s=20)
        return say(f"answer to {text}")

    with ScriptedServer(script) as server:
        command = [sys.executable, "-c", textwrap.dedent(SESSION), server.url, str(tmp_path)]
        environment = {**os.environ, "OPENAI_API_KEY": "sk-of-this-test"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        deadline = time.monotonic() + 60
        while not hung and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.communicate(timeout=30)[0].splitlines() == ["answer to write the first kernel"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert done.stdout.splitlines() == [f"answer to write the {tag} kernel" for tag in ("first", "second", "third")]
    asked = [body["messages"][-1]["content"].split()[2] for body in server.requests]
    assert asked == ["first", "second", "second", "third"]
    entries = AnswerStore(tmp_path / ANSWERS_FILE).entries()
    assert [(e.tag, e.outcome) for e in entries] == [
        ("first", "answered"),
        ("second", "abandoned"),
        ("second", "answered"),
        ("third", "answered"),
    ]
    assert entries[1].usage.completion_tokens == 500, "what was in flight may be billed in full"
    assert "sk-of-this-test" not in (tmp_path / ANSWERS_FILE).read_text()


def test_half_a_line_that_a_killed_process_left_is_no_answer(tmp_path, ask):
    with ScriptedServer([say("one"), say("two")]) as server:
        opened(server, tmp_path).ask(ask())
        file = tmp_path / ANSWERS_FILE
        file.write_bytes(file.read_bytes()[:-20])
        second = opened(server, tmp_path)
        assert [entry.outcome for entry in second.store.entries()] == ["abandoned"]
        assert second.ask(ask()).text == "two"
        assert opened(server, tmp_path).ask(ask()).text == "two"
    assert all(json.loads(line) for line in file.read_text().splitlines() if line.endswith("}"))


def test_a_file_that_is_no_record_is_refused_by_name(tmp_path):
    file = tmp_path / ANSWERS_FILE
    file.write_text('{"kind": "something"}\n')
    with pytest.raises(InvalidInput, match="line 1 is no part"):
        AnswerStore(file)


class Echo:
    def ask(self, ask: Ask) -> Answer:
        return Answer(text=ask.messages[-1].text, finish="stop", usage=Usage(requests=1))


def test_any_model_can_be_recorded_and_then_be_missing(tmp_path, ask):
    from warpsmith.sub_agents.models.budget import Ledger

    def made(model):
        return RecordedModel(AnswerStore(tmp_path / "a.jsonl"), model, Ledger(), lambda ask: (Usage(), "echo"))

    made(Echo()).ask(ask("hello"))
    before = (tmp_path / "a.jsonl").read_bytes()
    replay = made(None)
    assert replay.ask(ask("hello")).text == "hello"
    with pytest.raises(ModelError, match="holds no answer"):
        replay.ask(ask("hello"))
    assert (tmp_path / "a.jsonl").read_bytes() == before


def test_equal_requests_have_equal_keys_and_every_part_counts(ask):
    from pydantic import BaseModel

    class Shape(BaseModel):
        x: int

    changes = [{"role": "repairer"}, {"temperature": 0.5}, {"tag": "b"}, {"answer_schema": Shape}, {"phase": "tune"}]
    keys = [ask(**change).key for change in [{}, *changes]]
    assert len(set(keys)) == len(keys)
    assert ask().key == ask().key
    other = Ask(role="triton_writer", phase="explore", messages=(Message(author="system", text="write a kernel"),))
    assert other.key not in keys


def test_usage_is_summed_by_role_phase_and_model(tmp_path, ask):
    prices = {"scripted": {"prompt": 1.0, "completion": 2.0}}
    with ScriptedServer([say("abcd")]) as server:
        model = opened(server, tmp_path, models={"planner": "cheap"}, prices=prices)
        model.ask(ask(role="planner", phase="plan"))
        model.ask(ask(tag="1"))
        model.ask(ask(tag="2"))
        model.ask(ask(phase="tune"))
    rows = usage_rows(model.store.entries())
    assert [(row.role, row.phase, row.model, row.asks, row.tokens) for row in rows] == [
        ("planner", "plan", "cheap", 1, 31),
        ("triton_writer", "explore", "scripted", 2, 62),
        ("triton_writer", "tune", "scripted", 1, 31),
    ]
    assert rows[0].cost is None
    assert rows[1].cost == pytest.approx(64e-6)
    assert rows[1].seconds > 0
    assert total_tokens(model.store.entries()) == model.ledger.spent_tokens == 124
    assert total_cost(model.store.entries()) is None
    assert money_spent(model.store.entries()) == pytest.approx(96e-6)


def test_what_was_never_sent_costs_nothing(tmp_path, ask):
    prices = {"scripted": {"prompt": 1.0, "completion": 2.0}}
    with ScriptedServer([say("abcd")]) as server:
        model = opened(server, tmp_path, prices=prices, money_budget=0.004)
        model.ask(ask(tag="1", max_output_tokens=1000))
        with pytest.raises(BudgetSpent, match="raise the budget of money") as spent:
            model.ask(ask("z" * 60_000, tag="2"))
    assert spent.value.budget == "money"
    assert [entry.outcome for entry in model.store.entries()] == ["answered", "failed"]
    assert total_cost(model.store.entries()) == money_spent(model.store.entries()) == pytest.approx(32e-6)
