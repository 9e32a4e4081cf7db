"""Budgets hold: alone, in parallel, with retries, and whatever the endpoint counts."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError
from scripted_server.server import ScriptedServer, Step, counting, fail, say

from warpsmith.state.errors import InvalidInput
from warpsmith.sub_agents.models.budget import Ledger, TokenEstimate, most_tokens
from warpsmith.sub_agents.models.protocol import BudgetSpent
from warpsmith.sub_agents.models.settings import ModelSettings, Price

PRICES = {"scripted": {"prompt": 2.0, "completion": 10.0}}


def spend_all(made, ask, workers: int, text: str) -> int:
    """Asks until the budget is spent, from several threads; returns how many were answered."""
    answered = []

    def worker(number: int) -> None:
        for turn in range(200):
            try:
                answered.append(made.team.ask(ask(text, tag=f"{number}/{turn}")))
            except BudgetSpent:
                return
        pytest.fail("the budget never ended")

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(worker, range(workers)))
    return len(answered)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("answer_bytes", [200, 6000, 40_000])
def test_tokens_never_pass_the_budget_by_more_than_two_hundredths(workers, answer_bytes, desk, ask):
    with ScriptedServer(lambda body: counting(body, "z" * answer_bytes)) as server:
        made = desk(server, token_budget=60_000)
        answered = spend_all(made, ask, workers, "prompt " * 700)
    used = sum(
        step["prompt_tokens"] + step["completion_tokens"]
        for step in (counting(body, "z" * answer_bytes).body["usage"] for body in server.requests)
    )
    assert used == made.team.ledger.spent_tokens
    assert used <= 60_000 * 1.02
    assert used >= 60_000 * 0.8, "a budget that is barely used is too careful"
    assert answered == len(server.requests)


def test_money_never_passes_the_budget(desk, ask):
    with ScriptedServer(lambda body: counting(body, "z" * 5000)) as server:
        made = desk(server, money_budget=0.2, prices=PRICES)
        spend_all(made, ask, 3, "prompt " * 700)
        with pytest.raises(BudgetSpent) as raised:
            made.team.ledger.hold(10**6, 1000, Price(prompt=2.0, completion=10.0))
    spent = sum(
        Price(prompt=2.0, completion=10.0).cost(usage["prompt_tokens"], usage["completion_tokens"])
        for usage in (counting(body, "z" * 5000).body["usage"] for body in server.requests)
    )
    assert 0.15 <= spent <= 0.2 * 1.02
    (told,) = re.findall(r"([0-9.]+) of 0.2 in money", str(raised.value))
    assert float(told) == pytest.approx(spent, rel=1e-3)


def test_the_last_answer_gets_what_is_left_when_that_is_worth_it(desk, ask):
    with ScriptedServer([say("fine")]) as server:
        made = desk(server, token_budget=3000)
        made.team.ask(ask(max_output_tokens=8000))
    assert 2800 < server.requests[0]["max_tokens"] < 3000


def test_what_does_not_cover_a_prompt_is_not_asked(desk, ask):
    with ScriptedServer([say("fine")]) as server:
        made = desk(server, token_budget=900)
        with pytest.raises(BudgetSpent, match="raise the budget of tokens") as raised:
            made.team.ask(ask("x" * 1000))
    assert server.requests == []
    assert raised.value.usage.tokens == 0


def test_retries_of_lost_answers_spend_the_budget_too(desk, ask):
    with ScriptedServer([Step(body="garbage")]) as server:
        made = desk(server, token_budget=5000, attempts=10)
        with pytest.raises(BudgetSpent) as raised:
            made.team.ask(ask())
    assert len(server.requests) == 2
    assert made.team.ledger.spent_tokens == raised.value.usage.tokens <= 5000
    assert raised.value.usage.estimated


def test_requests_that_the_endpoint_turned_away_cost_nothing(desk, ask):
    with ScriptedServer([fail(503), fail(429), say("fine")]) as server:
        made = desk(server, token_budget=5000, prices=PRICES)
        answer = made.team.ask(ask())
    assert (answer.usage.requests, answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 30, 1)
    assert answer.usage.cost == pytest.approx((30 * 2 + 10) / 1e6)
    assert made.team.ledger.spent_tokens == 31


def test_an_endpoint_that_ignores_the_limit_is_asked_by_its_other_name(desk, ask):
    def script(body):
        limit = body.get("max_completion_tokens", 100_000)
        return say("z", usage={"prompt_tokens": 10, "completion_tokens": min(limit - 1, 5000)})

    with ScriptedServer(script) as server:
        made = desk(server)
        assert made.team.ask(ask(max_output_tokens=1000)).finish == "stop"
        assert made.team.ask(ask(max_output_tokens=1000)).usage.completion_tokens == 999
    assert made.events("model_over_limit") == [{"model": "scripted", "asked": 1000, "given": 5000}]


def test_a_price_that_is_unknown_gives_no_money_figure(desk, ask):
    with ScriptedServer([say("fine")]) as server:
        assert desk(server).team.ask(ask()).usage.cost is None


def test_a_money_budget_needs_every_price():
    with pytest.raises(ValidationError, match="needs the price of other"):
        ModelSettings.model_validate(
            {"model": "scripted", "models": {"planner": "other"}, "money_budget": 1, "prices": PRICES}
        )


def test_a_missing_key_is_an_error_only_where_one_is_needed(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY is not set"):
        ModelSettings(model="m").key()
    assert ModelSettings(model="m", base_url="http://127.0.0.1:1/v1").key() == "unused"


def test_one_who_waits_for_room_gets_it_when_another_used_less():
    ledger = Ledger(token_budget=4000)
    first = ledger.hold(1000, 2000)
    got = []
    waiting = threading.Thread(target=lambda: got.append(ledger.hold(1000, 2000)))
    waiting.start()
    waiting.join(0.1)
    assert got == []
    ledger.settle(first, 800)
    waiting.join(5)
    assert got[0].output_tokens == 2000


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("word", 2),
        ("a b", 2),
        ("    x", 2),
        ("x\n\n    y", 5),
        ("x = 1024;", 7),
        ("\u00e9\u4e2d", 5),
        ("\ud800", 1),
    ],
)
def test_text_is_counted_from_above(text, tokens):
    assert most_tokens(text) == tokens


def test_an_estimate_is_our_own_count_until_real_ones_are_known():
    estimate = TokenEstimate()
    fixed = estimate.TOKENS_A_MESSAGE + estimate.TOKENS_A_REQUEST
    assert estimate.tokens(3000, 1) == 3000 + fixed
    estimate.learn(100, 90)
    assert estimate.tokens(3000, 1) == 3000 + fixed, "a short prompt says little"
    estimate.learn(4000, 1000)
    assert estimate.tokens(3000, 1) == 900 + fixed
    estimate.learn(4000, 2000)
    estimate.learn(4000, 1000)
    assert estimate.tokens(3000, 1) == 1800 + fixed, "the densest prompt seen decides"


def test_a_schema_that_the_endpoint_ignores_does_not_make_later_estimates_too_small(desk, ask):
    class Wide(BaseModel):
        model_config = ConfigDict(json_schema_extra={"examples": ["word " * 5000]})
        x: int

    with ScriptedServer(lambda body: counting(body, '{"x": 1}')) as server:
        made = desk(server)
        made.team.ask(ask("a1 " * 2000, answer_schema=Wide))
        estimated = made.team.bound(ask("a1 " * 2000))[0].prompt_tokens
        answer = made.team.ask(ask("a1 " * 2000))
    assert answer.usage.prompt_tokens <= estimated


def test_each_role_asks_its_own_model(desk, ask):
    with ScriptedServer([say("fine")]) as server:
        made = desk(server, model="strong", models={"planner": "cheap"})
        made.team.ask(ask(role="planner", phase="plan"))
        made.team.ask(ask(role="cuda_writer", phase="rewrite"))
    assert [body["model"] for body in server.requests] == ["cheap", "strong"]
