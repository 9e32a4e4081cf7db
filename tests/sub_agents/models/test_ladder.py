"""Answers of a given shape from endpoints that support all, some or none of the ways to ask for one."""

import json

import pytest
from pydantic import BaseModel, Field
from scripted_server.server import ScriptedServer, call, fail, say

from warpsmith.sub_agents.models.ladder import ANSWER_TOOL, RUNGS
from warpsmith.sub_agents.models.protocol import EndpointFault, ToolSpec


class Idea(BaseModel):
    name: str
    gain: float = Field(gt=0)


GOOD = {"name": "fuse", "gain": 2.0}
TEXT = json.dumps(GOOD)


def rung_of(body) -> str:
    """Which rung a request is on, by what is on the wire."""
    form = body.get("response_format", {}).get("type")
    if form:
        return {"json_schema": "json_schema", "json_object": "json_mode"}[form]
    return "tool_call" if any(t["function"]["name"] == ANSWER_TOOL for t in body.get("tools", [])) else "text"


def supporting(*rungs: str):
    """A server that takes these rungs and refuses the others."""

    def script(body):
        rung = rung_of(body)
        if rung not in rungs:
            return fail(400, None, "unknown field")
        return call(ANSWER_TOOL, GOOD) if rung == "tool_call" else say(TEXT)

    return script


@pytest.mark.parametrize("rung", RUNGS)
def test_the_first_rung_that_the_endpoint_takes_is_used_and_remembered(rung, desk, ask):
    with ScriptedServer(supporting(rung)) as server:
        made = desk(server)
        answers = [made.team.ask(ask(answer_schema=Idea)) for _ in range(3)]
    assert [answer.parsed for answer in answers] == [GOOD] * 3
    assert {answer.rung for answer in answers} == {rung}
    tried = RUNGS[: RUNGS.index(rung) + 1]
    assert [rung_of(body) for body in server.requests] == [*tried, rung, rung]
    assert [event["rung"] for event in made.events("model_rung")] == [rung]


def test_an_endpoint_that_ignores_the_shape_is_asked_in_plainer_ways(desk, ask):
    def script(body):
        return say(f"Sure!\n```json\n{TEXT}\n```") if rung_of(body) == "text" else say("What a fine day.")

    with ScriptedServer(script) as server:
        made = desk(server)
        first, second = made.team.ask(ask(answer_schema=Idea)), made.team.ask(ask(answer_schema=Idea))
    assert first.parsed == second.parsed == GOOD
    assert [rung_of(body) for body in server.requests] == [*RUNGS, "text"]
    assert (first.usage.requests, second.usage.requests) == (4, 1)
    assert "JSON schema" in server.requests[-1]["messages"][-1]["content"]


def test_an_answer_that_never_fits_takes_four_requests_and_comes_with_the_fault(desk, ask):
    with ScriptedServer([say('{"name": "fuse", "gain": -1}')]) as server:
        answer = desk(server).team.ask(ask(answer_schema=Idea))
    assert (len(server.requests), answer.parsed, answer.finish) == (4, None, "stop")
    assert "gain: Input should be greater than 0" in answer.fault


def test_once_a_rung_is_proven_a_bad_answer_is_the_model_s_own(desk, ask):
    with ScriptedServer([say(TEXT), say("hm")]) as server:
        made = desk(server)
        made.team.ask(ask(answer_schema=Idea))
        answer = made.team.ask(ask(answer_schema=Idea))
    assert len(server.requests) == 2
    assert (answer.parsed, answer.fault) == (None, "no JSON object in the answer")


def test_an_answer_that_was_cut_does_not_move_down_the_ladder(desk, ask):
    with ScriptedServer([say('{"name": "fu', "length")]) as server:
        answer = desk(server).team.ask(ask(answer_schema=Idea))
    assert (len(server.requests), answer.finish, answer.parsed) == (1, "truncated", None)


def test_an_endpoint_that_refuses_every_form_says_so(desk, ask):
    with ScriptedServer([fail(422)]) as server, pytest.raises(EndpointFault):
        desk(server).team.ask(ask(answer_schema=Idea))
    assert [rung_of(body) for body in server.requests] == list(RUNGS)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"\ufeff{TEXT}",
        f"```json\n{TEXT}\n```",
        f"Here you are: {TEXT} Good luck!",
        f'<think>{{"name": "draft", "gain": 9}}</think>{TEXT}',
        f'{{"note": "not this"}}\n```json\n{TEXT}\n```',
    ],
)
def test_json_is_found_wherever_it_stands(text, desk, ask):
    with ScriptedServer([say(text)]) as server:
        assert desk(server).team.ask(ask(answer_schema=Idea)).parsed == GOOD


def test_escaped_lone_surrogates_in_json_are_replaced(desk, ask):
    with ScriptedServer([say('{"name": "half \\ud800", "gain": 1}')]) as server:
        answer = desk(server).team.ask(ask(answer_schema=Idea))
    assert answer.parsed == {"name": "half ?", "gain": 1.0}
    answer.model_dump_json().encode()


class Look(BaseModel):
    what: str


TOOLS = (ToolSpec(name="look", about="Looks.", arguments=Look),)


def test_tools_and_a_shape_go_together(desk, ask):
    with ScriptedServer([call("look", {"what": "sheet"}), say(TEXT)]) as server:
        made = desk(server)
        first = made.team.ask(ask(answer_schema=Idea, tools=TOOLS))
        second = made.team.ask(ask(answer_schema=Idea, tools=TOOLS))
    assert (first.finish, first.tool_calls[0].arguments) == ("tool_calls", {"what": "sheet"})
    assert (second.finish, second.parsed) == ("stop", GOOD)
    assert all(body["tools"] and body["response_format"] for body in server.requests)


def test_on_the_tool_rung_the_answer_is_one_tool_among_the_others(desk, ask):
    def script(body):
        if "response_format" in body:
            return fail(400)
        return call("look", {"what": "sheet"}) if len(server.requests) == 2 else call(ANSWER_TOOL, GOOD)

    with ScriptedServer(script) as server:
        made = desk(server)
        first = made.team.ask(ask(answer_schema=Idea, tools=TOOLS))
        second = made.team.ask(ask(answer_schema=Idea, tools=TOOLS))
    assert first.tool_calls[0].name == "look"
    assert (second.parsed, second.rung, second.tool_calls) == (GOOD, "tool_call", ())
    assert server.requests[-1]["tool_choice"] == "auto"


def test_an_endpoint_that_names_tools_as_the_trouble_keeps_its_shape(desk, ask):
    def script(body):
        return fail(400, None, param="tools") if "tools" in body else say(TEXT)

    with ScriptedServer(script) as server:
        made = desk(server)
        answer = made.team.ask(ask(answer_schema=Idea, tools=TOOLS))
    assert (answer.parsed, answer.rung, len(server.requests)) == (GOOD, "json_schema", 2)


def test_malformed_arguments_of_the_answer_tool_are_a_fault(desk, ask):
    def script(body):
        return fail(400) if "response_format" in body else call(ANSWER_TOOL, '{"name": "fu')

    with ScriptedServer(script) as server:
        answer = desk(server).team.ask(ask(answer_schema=Idea))
    assert answer.parsed is None
    assert answer.fault
