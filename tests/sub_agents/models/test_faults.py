"""The fault matrix: everything that an endpoint can do wrong, played by a real server to the real client."""

import email.utils
import threading
import time

import pytest
from pydantic import BaseModel, ValidationError
from scripted_server.server import KEY, ScriptedServer, Step, call, completion, fail, say

from warpsmith.sub_agents.models.protocol import EndpointFault, QuotaExhausted, ToolSpec
from warpsmith.sub_agents.models.settings import ModelSettings

FINE = say("fine")


def busy(**headers: str) -> Step:
    return fail(429, "rate_limit_exceeded", type="requests", headers=headers)


TRANSIENT = {
    "rate_limited": busy(),
    "overloaded_529": fail(529, message="overloaded"),
    "internal_error_500": fail(500),
    "bad_gateway_with_html": Step(status=502, body="<html>Bad gateway</html>", content_type="text/html"),
    "unavailable_with_an_empty_body": Step(status=503, body=""),
    "request_timeout_408": fail(408),
    "conflict_409": fail(409),
    "connection_dropped": Step(drop=True),
    "body_cut_in_half": say("x" * 500, half=True),
    "error_in_the_body_of_a_200": Step(body={"error": {"message": "provider is down", "code": 502}}),
    "html_with_status_200": Step(body="<html>log in</html>", content_type="text/html"),
    "json_that_does_not_parse": Step(body='{"choices": [{'),
    "json_that_is_a_list": Step(body="[1, 2]"),
    "empty_body": Step(body=""),
    "choices_null": Step(body={"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": None}),
    "choices_empty": Step(body={"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}),
    "choices_missing": Step(body={"id": "x"}),
    "message_missing": Step(body={"id": "x", "model": "m", "choices": [{"index": 0, "finish_reason": "stop"}]}),
}


@pytest.mark.parametrize("fault", TRANSIENT)
def test_a_passing_fault_is_retried(fault, desk, ask):
    with ScriptedServer([TRANSIENT[fault], FINE]) as server:
        made = desk(server)
        answer = made.team.ask(ask())
    assert (answer.text, answer.finish) == ("fine", "stop")
    assert (len(server.requests), made.pauses) == (2, [1.0])
    assert made.events("model_retry")[0]["attempt"] == 1


@pytest.mark.parametrize("fault", TRANSIENT)
def test_a_lasting_fault_ends_after_the_tries_allowed(fault, desk, ask):
    with ScriptedServer([TRANSIENT[fault]]) as server:
        made = desk(server, attempts=3)
        with pytest.raises(EndpointFault, match="after 3 tries") as raised:
            made.team.ask(ask())
    assert (len(server.requests), made.pauses) == (3, [1.0, 2.0])
    assert "\n" not in str(raised.value)


def test_after_a_lasting_fault_there_is_one_try_at_a_time_until_an_answer_comes(desk, ask):
    with ScriptedServer(lambda body: FINE if len(server.requests) == 5 else fail(503)) as server:
        made = desk(server, attempts=3)
        for requests in (3, 4):
            with pytest.raises(EndpointFault):
                made.team.ask(ask())
            assert len(server.requests) == requests
        assert made.team.ask(ask()).text == "fine"
        with pytest.raises(EndpointFault):
            made.team.ask(ask())
    assert len(server.requests) == 8


LASTING = {
    "key_refused_401": (fail(401, "invalid_api_key", f"Incorrect API key provided: {KEY}"), EndpointFault),
    "forbidden_403": (fail(403), EndpointFault),
    "no_such_model_404": (fail(404, "model_not_found"), EndpointFault),
    "bad_request_400": (fail(400), EndpointFault),
    "prompt_too_long": (fail(400, "context_length_exceeded"), EndpointFault),
    "payload_too_large_413": (fail(413), EndpointFault),
    "quota_exhausted": (fail(429, "insufficient_quota", type="insufficient_quota"), QuotaExhausted),
    "quota_by_type_only": (fail(429, None, type="insufficient_quota"), QuotaExhausted),
    "payment_required_402": (fail(402), QuotaExhausted),
    "quota_in_the_body_of_a_200": (Step(body={"error": {"message": "", "code": "insufficient_quota"}}), QuotaExhausted),
    "billing_limit": (fail(400, "billing_hard_limit_reached"), QuotaExhausted),
}


@pytest.mark.parametrize("fault", LASTING)
def test_a_refusal_of_the_request_is_not_retried(fault, desk, ask):
    step, kind = LASTING[fault]
    with ScriptedServer([step]) as server:
        made = desk(server)
        with pytest.raises(kind) as raised:
            made.team.ask(ask())
    assert type(raised.value) is kind
    assert (len(server.requests), made.pauses) == (1, [])
    assert KEY not in str(raised.value)


def test_a_rate_limit_that_talks_of_quotas_is_still_only_a_rate_limit(desk, ask):
    step = fail(429, "rate_limit_exceeded", "You exceeded your current quota, insufficient_quota, check your billing")
    with ScriptedServer([step, FINE]) as server:
        assert desk(server).team.ask(ask()).text == "fine"


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"Retry-After": "86400"}, 60.0),
        ({"Retry-After": "-5"}, 1.0),
        ({"Retry-After": "soon"}, 1.0),
        ({"Retry-After": "inf"}, 1.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_followed_up_to_a_cap(headers, pause, desk, ask):
    with ScriptedServer([busy(**headers), FINE]) as server:
        made = desk(server)
        made.team.ask(ask())
    assert made.pauses == [pause]


def test_retry_after_as_a_date_is_followed(desk, ask):
    with ScriptedServer(
        [busy(**{"Retry-After": email.utils.formatdate(time.time() + 30, usegmt=True)}), FINE]
    ) as server:
        made = desk(server)
        made.team.ask(ask())
    assert 25 < made.pauses[0] <= 30


@pytest.mark.parametrize(
    ("fault", "step"), [("hang", say("late", delay_s=60.0)), ("trickle", say("late" * 10, trickle_s=0.2))]
)
def test_an_answer_that_does_not_end_is_left_behind(fault, step, desk, ask):
    with ScriptedServer([step, FINE]) as server:
        made = desk(server, answer_seconds=1.5)
        started = time.monotonic()
        answer = made.team.ask(ask())
        assert answer.text == "fine"
        assert time.monotonic() - started < 30
        assert answer.usage.requests == 2
        assert answer.usage.estimated
    assert made.team.ledger.spent_tokens >= 2000  # The answer that was lost may be billed in full.


def test_a_person_who_stops_the_run_does_not_wait_for_the_answer(desk, ask):
    with ScriptedServer([say("late", delay_s=30.0)]) as server:
        made = desk(server, answer_seconds=60.0)
        threading.Timer(0.3, made.stopping.set).start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            made.team.ask(ask())
        assert time.monotonic() - started < 10
    assert made.team.ledger.spent_tokens >= 2000, "what was in flight may be billed"


def test_an_endpoint_that_is_not_there_says_so(desk, ask):
    with ScriptedServer([FINE]) as server:
        made = desk(server, attempts=2)
    with pytest.raises(EndpointFault, match="cannot be reached") as raised:
        made.team.ask(ask())
    assert server.url in str(raised.value)
    assert made.team.ledger.spent_tokens == 0


def test_the_key_shows_up_nowhere(desk, ask, tmp_path):
    with ScriptedServer([fail(500, message=f"trace with {KEY}"), fail(400, message=f"key was {KEY}")]) as server:
        made = desk(server)
        with pytest.raises(EndpointFault) as raised:
            made.team.ask(ask())
    endpoint = made.team.model("scripted").endpoint
    shown = f"{raised.value!r} {made.told} {endpoint!r} {endpoint._opened()!r} {made.team.settings!r}"
    assert KEY not in shown
    assert f"Bearer {KEY}" in server.headers[0].values()
    assert KEY not in made.team.settings.model_dump_json()


def test_credentials_in_the_environment_s_address_are_not_shown(desk, ask, monkeypatch):
    with ScriptedServer([fail(403)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("http://", "http://user:secret@"))
        made = desk(server, base_url=None)
        with pytest.raises(EndpointFault, match="status 403") as raised:
            made.team.ask(ask())
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "address", ["http://user:secret@127.0.0.1/v1", "http://127.0.0.1/v1?key=secret", "127.0.0.1:80/v1", "ftp://x/v1"]
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused(address):
    with pytest.raises(ValidationError, match="the base URL"):
        ModelSettings(model="m", base_url=address)


# What the model says


@pytest.mark.parametrize(
    ("fault", "step", "finish", "told"),
    [
        ("null_content", say(None), "stop", "empty"),
        ("empty_content", say(""), "stop", "empty"),
        ("only_thinking", say("<think>hm</think>"), "stop", "empty"),
        ("cut_by_the_limit", say("import torch", "length"), "truncated", "cut after 3 tokens"),
        ("cut_while_thinking", say(None, "length", usage={"prompt_tokens": 5, "completion_tokens": 2000}),
         "truncated", "before anything"),
        ("cut_but_called_stop", say("import", usage={"prompt_tokens": 5, "completion_tokens": 2000}),
         "truncated", "cut after 2000 tokens"),
        ("refused", say(None, refusal="I cannot help\nwith that"), "refused", "refused: I cannot help with that"),
        ("content_filter", say("import", "content_filter"), "refused", "refused"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_comes_with_its_fault(fault, step, finish, told, desk, ask):
    with ScriptedServer([step]) as server:
        answer = desk(server).team.ask(ask())
    assert answer.finish == finish
    assert told in answer.fault
    assert "\n" not in answer.fault


def test_reasoning_that_the_server_split_off_is_not_the_answer(desk, ask):
    usage = {"prompt_tokens": 9, "completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 40}}
    with ScriptedServer([say("fine", reasoning_content="let me think", usage=usage)]) as server:
        answer = desk(server).team.ask(ask())
    assert answer.text == "fine"
    assert (answer.usage.completion_tokens, answer.usage.reasoning_tokens) == (50, 40)


def test_lone_surrogates_in_content_and_prompt_do_no_harm(desk, ask):
    body = '{"id":"1","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant",'
    with ScriptedServer([Step(body=body + '"content":"x = 1 \\ud83d"}}]}')]) as server:
        answer = desk(server).team.ask(ask("half \ud83d of a character"))
    assert answer.text == "x = 1 ?"
    answer.model_dump_json().encode()


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": -5, "completion_tokens": -7},
    ],
)
def test_usage_that_the_server_does_not_give_is_estimated_from_above(usage, desk, ask):
    body = completion({"role": "assistant", "content": "y," * 50}, "stop", None)
    if usage is not None:
        body["usage"] = usage
    with ScriptedServer([Step(body=body)]) as server:
        made = desk(server)
        answer = made.team.ask(ask("x, " * 200))
    assert answer.usage.estimated
    assert answer.usage.prompt_tokens >= 400
    assert answer.usage.completion_tokens >= 100
    assert made.team.ledger.spent_tokens == answer.usage.tokens


def test_a_finish_reason_that_is_missing_counts_as_an_end(desk, ask):
    with ScriptedServer([say("fine", None)]) as server:
        assert desk(server).team.ask(ask()).finish == "stop"


# Parameters that an endpoint does not take


@pytest.mark.parametrize("parameter", ["temperature", "max_tokens"])
def test_a_parameter_that_is_named_as_unsupported_is_left_out_from_then_on(parameter, desk, ask):
    def script(body):
        code = "unsupported_parameter" if parameter == "max_tokens" else "unsupported_value"
        return fail(400, code, param=parameter) if parameter in body else FINE

    with ScriptedServer(script) as server:
        made = desk(server)
        assert made.team.ask(ask()).text == "fine"
        assert made.team.ask(ask()).text == "fine"
    assert [parameter in body for body in server.requests] == [True, False, False]
    limits = [body.get("max_tokens") or body.get("max_completion_tokens") for body in server.requests]
    assert limits == [2000, 2000, 2000]


def test_an_endpoint_that_takes_no_parameter_at_all_ends_in_its_fault(desk, ask):
    step = fail(400, "unsupported_parameter", param="messages")
    with ScriptedServer([step]) as server, pytest.raises(EndpointFault):
        desk(server).team.ask(ask())
    assert len(server.requests) == 1


def test_parameters_refused_in_turn_do_not_go_on_for_ever(desk, ask):
    def script(body):
        return fail(
            400, "unsupported_parameter", param="max_tokens" if "max_tokens" in body else "max_completion_tokens"
        )

    with ScriptedServer(script) as server, pytest.raises(EndpointFault):
        desk(server).team.ask(ask())
    assert len(server.requests) == 3


# Tools


class Kernel(BaseModel):
    source: str
    tile: int = 64


TOOLS = (ToolSpec(name="compile_kernel", about="Compiles.", arguments=Kernel),)


def test_a_tool_call_comes_with_its_arguments_checked(desk, ask):
    with ScriptedServer([call("compile_kernel", {"source": "x"})]) as server:
        answer = desk(server).team.ask(ask(tools=TOOLS))
    assert answer.finish == "tool_calls"
    (made,) = answer.tool_calls
    assert (made.name, made.arguments, made.fault) == ("compile_kernel", {"source": "x", "tile": 64}, "")
    assert server.requests[0]["tools"][0]["function"]["name"] == "compile_kernel"


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        (call("no_such_tool", {}), "no tool 'no_such_tool'; there are: compile_kernel"),
        (call("compile_kernel", '{"source": '), "not a JSON object"),
        (call("compile_kernel", "[1]"), "not a JSON object"),
        (call("compile_kernel", {"tile": 3}), "source: Field required"),
        (call("compile_kernel", {"source": "x", "tile": "wide"}), "tile: "),
    ],
)
def test_a_tool_call_that_cannot_be_carried_out_says_why(step, fault, desk, ask):
    with ScriptedServer([step]) as server:
        answer = desk(server).team.ask(ask(tools=TOOLS))
    assert answer.finish == "tool_calls"
    assert fault in answer.tool_calls[0].fault


def test_a_tool_call_that_the_server_left_in_the_text_is_read(desk, ask):
    written = '<tool_call>\n{"name": "compile_kernel", "arguments": {"source": "x = {1}"}}\n</tool_call>'
    other = '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call> <tool_call>{"name"</tool_call>'
    with ScriptedServer([say(f"Let me see.\n{written}"), say(other), say(written)]) as server:
        made = desk(server)
        first, second, third = made.team.ask(ask(tools=TOOLS)), made.team.ask(ask(tools=TOOLS)), made.team.ask(ask())
    assert first.tool_calls[0].arguments == {"source": "x = {1}", "tile": 64}
    assert [answer.finish for answer in (first, second, third)] == ["tool_calls", "stop", "stop"]


def test_tool_calls_without_ids_or_with_the_same_get_ids_of_their_own(desk, ask):
    one = {"type": "function", "function": {"name": "compile_kernel", "arguments": '{"source": "x"}'}}
    calls = [{"id": "", **one}, {"id": "a", **one}, {"id": "a", **one}]
    with ScriptedServer([say(None, "tool_calls", tool_calls=calls)]) as server:
        answer = desk(server).team.ask(ask(tools=TOOLS))
    ids = [made.id for made in answer.tool_calls]
    assert len(set(ids)) == 3
    assert all(ids)


def test_a_tool_call_that_was_cut_is_not_carried_out(desk, ask):
    step = call("compile_kernel", {"source": "x"})
    step.body["choices"][0]["finish_reason"] = "length"
    with ScriptedServer([step]) as server:
        answer = desk(server).team.ask(ask(tools=TOOLS))
    assert (answer.finish, answer.tool_calls) == ("truncated", ())


def test_an_endpoint_without_tools_is_asked_without_them_from_then_on(desk, ask):
    with ScriptedServer(lambda body: fail(400) if "tools" in body else FINE) as server:
        made = desk(server)
        assert made.team.ask(ask(tools=TOOLS)).text == "fine"
        assert made.team.ask(ask(tools=TOOLS)).text == "fine"
    assert ["tools" in body for body in server.requests] == [True, False, False]
    assert len(made.events("model_without_tools")) == 1
